//go:build rdmacore && cgo && linux

#include "stub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "stub0",
};

struct ibv_context stub_context = {
	.device = &device,
	.ops = {
		.poll_cq = stub_poll_cq,
		.post_send = stub_post_send,
		.post_recv = stub_post_recv,
		.post_srq_recv = stub_post_srq_recv,
	},
	.cmd_fd = -1,
	.async_fd = -1,
	.num_comp_vectors = 1,
};

static struct ibv_context *contexts[] = { &stub_context, NULL };
static struct ibv_device *devices[] = { &device, NULL };

/* Does nothing, because every loop polls and needs no event. */
static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return 0;
}

struct ibv_context **rdma_get_devices(int *n)
{
	stub_context.ops.req_notify_cq = req_notify_cq;
	if (stub_context.async_fd < 0)
		stub_context.async_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (n)
		*n = 1;
	return contexts;
}

void rdma_free_devices(struct ibv_context **list) { (void)list; }

struct ibv_device **ibv_get_device_list(int *n)
{
	if (n)
		*n = 1;
	return devices;
}

void ibv_free_device_list(struct ibv_device **list) { (void)list; }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	(void)ctx;
	*a = (struct ibv_device_attr){
		.fw_ver = "stub", .max_mr_size = 1ull << 40, .vendor_id = 1, .phys_port_cnt = 1,
		.max_qp = MAX_OBJECTS, .max_qp_wr = MAX_WR, .max_sge = 1, .max_cq = MAX_OBJECTS,
		.max_cqe = 1 << 20, .max_mr = MAX_OBJECTS, .max_pd = MAX_OBJECTS, .max_ah = MAX_OBJECTS,
		.max_srq = MAX_OBJECTS, .max_srq_wr = MAX_WR, .max_srq_sge = 1,
		.max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
	};
	return 0;
}

/* libibverbs passes a struct ibv_port_attr to this function. The older struct of the
 * declaration is the beginning of that struct. */
int (ibv_query_port)(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)out;

	(void)ctx, (void)port;
	a->state = IBV_PORT_ACTIVE;
	a->max_mtu = a->active_mtu = IBV_MTU_4096;
	a->gid_tbl_len = 1;
	a->max_msg_sz = SLOT_BYTES;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

/* The device has the address 192.0.2.1, which is reserved for examples (RFC 5737). */
ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *list, size_t n, uint32_t flags,
			     size_t size)
{
	static const uint8_t gid[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };

	(void)ctx, (void)flags;
	if (n < 1 || size < sizeof(*list))
		return -EINVAL;
	memset(list, 0, sizeof(*list));
	memcpy(list->gid.raw, gid, sizeof(gid));
	list->port_num = 1;
	list->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 1;
}

/* The queue pair of the next asynchronous event, or NULL. */
static struct ibv_qp *failed;

/* Moves a queue pair to ERROR. If the queue pair has a shared receive queue, an
 * asynchronous event reports that it uses no more buffers. */
void stub_fail(struct ibv_qp *qp)
{
	uint64_t one = 1;

	if (qp->state == IBV_QPS_ERR)
		return;
	qp->state = IBV_QPS_ERR;
	if (!qp->srq)
		return;
	__atomic_store_n(&failed, qp, __ATOMIC_RELEASE);
	if (write(stub_context.async_fd, &one, sizeof(one)) < 0)
		abort();
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	uint64_t count;

	if (read(ctx->async_fd, &count, sizeof(count)) < 0)
		return -1;
	event->event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
	event->element.qp = __atomic_load_n(&failed, __ATOMIC_ACQUIRE);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->context = ctx;
	c->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return c;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel, (void)cq, (void)context;
	errno = EAGAIN;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n) { (void)cq, (void)n; }
