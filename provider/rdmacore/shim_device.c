//go:build cgo && linux

#define _GNU_SOURCE /* dup3 */

#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int rl_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	return verbs_result(ibv_query_port(ctx, port, attr));
}

struct ibv_mr *rl_reg_mr(struct ibv_pd *pd, uint64_t addr, uint64_t length, int access)
{
	return ibv_reg_mr(pd, (void *)(uintptr_t)addr, length, access);
}

int rl_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	return fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

/* Closes the descriptors of a removed device. Some drivers have no
 * disassociate_ucontext, for example the driver of rxe. With such a driver, the kernel
 * finishes the removal only after the descriptors are closed.
 *
 * The library does not know that the descriptors are closed. When it next finds a
 * device, it closes the same numbers again. Until then no other file must get these
 * numbers. So the function replaces the descriptors by descriptors of /dev/null, which
 * can be neither read, written nor controlled. */
int rl_release_device(struct ibv_context *ctx)
{
	int null_fd = open("/dev/null", O_PATH | O_CLOEXEC);
	int ret = 0;

	if (null_fd < 0)
		return -errno;
	if (dup3(null_fd, ctx->async_fd, O_CLOEXEC) < 0 || dup3(null_fd, ctx->cmd_fd, O_CLOEXEC) < 0)
		ret = -errno;
	close(null_fd);
	return ret;
}

static int takes_inline(struct ibv_pd *pd, struct ibv_cq *cq, int bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = bytes },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (qp)
		ibv_destroy_qp(qp);
	return qp != NULL;
}

/* Returns the largest size of inline data, up to limit, that a queue pair can have. The
 * device does not report the size, so the function tries several sizes. */
int rl_max_inline(struct ibv_context *ctx, int limit)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = pd ? ibv_create_cq(ctx, 2, NULL, NULL, 0) : NULL;
	int low = 0, high = limit;

	while (cq && low < high) {
		int middle = (low + high + 1) / 2;

		if (takes_inline(pd, cq, middle))
			low = middle;
		else
			high = middle - 1;
	}
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	return low;
}

int rl_can_resize(struct ibv_context *ctx)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	int can;

	if (!cq)
		return 0;
	can = ibv_resize_cq(cq, 2 * cq->cqe + 1) == 0;
	ibv_destroy_cq(cq);
	return can;
}

/* Fetches one event and acknowledges it. Returns 1, or 0 if there is no event, or a
 * negated errno. The errno is EINTR if a signal has interrupted the call. */
int rl_next_async(struct ibv_context *ctx, struct rl_async *out)
{
	struct ibv_async_event ev;

	if (ibv_get_async_event(ctx, &ev))
		return errno == EAGAIN ? 0 : -errno;
	memset(out, 0, sizeof(*out));
	out->type = ev.event_type;
	switch (ev.event_type) {
	case IBV_EVENT_CQ_ERR:
		out->object = (uintptr_t)ev.element.cq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->object = (uintptr_t)ev.element.qp;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		out->object = (uintptr_t)ev.element.srq;
		break;
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_WQ_FATAL:
		break;
	default:
		out->port = ev.element.port_num;
	}
	ibv_ack_async_event(&ev);
	return 1;
}
