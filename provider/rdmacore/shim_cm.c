//go:build cgo && linux

#include "shim.h"

#include <errno.h>
#include <string.h>

/* Converts the result of a function of librdmacm to 0 or a negated errno. A function of
 * librdmacm that fails returns -1 and sets errno. */
static int cm_result(int ret)
{
	return ret ? -errno : 0;
}

static void copy_data(struct rl_param *p, const void *data, uint8_t len)
{
	p->data_len = data ? len : 0;
	memcpy(p->data, data, p->data_len);
}

static void copy_conn(struct rl_event *out, const struct rdma_conn_param *p)
{
	out->param.responder_resources = p->responder_resources;
	out->param.initiator_depth = p->initiator_depth;
	out->param.flow_control = p->flow_control;
	out->param.retry_count = p->retry_count;
	out->param.rnr_retry_count = p->rnr_retry_count;
	out->param.srq = p->srq;
	out->param.qp_num = p->qp_num;
	copy_data(&out->param, p->private_data, p->private_data_len);
}

static void copy_ud(struct rl_event *out, const struct rdma_ud_param *p)
{
	out->param.qp_num = p->qp_num;
	out->qkey = p->qkey;
	out->ah = p->ah_attr;
	copy_data(&out->param, p->private_data, p->private_data_len);
}

/* Reports whether an event has parameters. Events that report a message of the peer have
 * them. */
static int has_param(enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_ESTABLISHED:
		return 1;
	default:
		return 0;
	}
}

/* Fetches one event, copies it to out and acknowledges it. Returns 1, or 0 if there is no
 * event. */
int rl_next_event(struct rdma_event_channel *channel, struct rl_event *out)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(channel, &ev))
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	memset(out, 0, sizeof(*out));
	out->id = (uintptr_t)ev->id;
	out->listener = (uintptr_t)ev->listen_id;
	out->type = ev->event;
	out->status = ev->status;
	if (has_param(ev->event)) {
		if (ev->id->ps == RDMA_PS_UDP)
			copy_ud(out, &ev->param.ud);
		else
			copy_conn(out, &ev->param.conn);
	}
	rdma_ack_cm_event(ev);
	return 1;
}

int rl_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, int ps)
{
	return cm_result(rdma_create_id(channel, id, NULL, ps));
}

int rl_bind(struct rdma_cm_id *id, uint8_t *addr)
{
	return cm_result(rdma_bind_addr(id, (struct sockaddr *)addr));
}

int rl_resolve_addr(struct rdma_cm_id *id, uint8_t *src, uint8_t *dst, int ms)
{
	return cm_result(rdma_resolve_addr(id, (struct sockaddr *)src, (struct sockaddr *)dst, ms));
}

int rl_resolve_route(struct rdma_cm_id *id, int ms)
{
	return cm_result(rdma_resolve_route(id, ms));
}

int rl_listen(struct rdma_cm_id *id, int backlog)
{
	return cm_result(rdma_listen(id, backlog));
}

int rl_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return cm_result(rdma_create_qp(id, pd, attr));
}

static struct rdma_conn_param conn_param(const struct rl_param *p)
{
	struct rdma_conn_param out = {
		.private_data = p->data_len ? p->data : NULL,
		.private_data_len = p->data_len,
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control,
		.retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry_count,
		.srq = p->srq,
		.qp_num = p->qp_num,
	};

	return out;
}

int rl_connect(struct rdma_cm_id *id, const struct rl_param *p)
{
	struct rdma_conn_param param = conn_param(p);

	return cm_result(rdma_connect(id, &param));
}

/* Accepts a request. rdma_accept must not get a null pointer as param, because librdmacm
 * would read the number of the queue pair through it. */
int rl_accept(struct rdma_cm_id *id, const struct rl_param *p)
{
	struct rdma_conn_param param = conn_param(p);

	return cm_result(rdma_accept(id, &param));
}

int rl_reject(struct rdma_cm_id *id, const uint8_t *data, uint8_t len)
{
	return cm_result(rdma_reject(id, data, len));
}

int rl_establish(struct rdma_cm_id *id)
{
	return cm_result(rdma_establish(id));
}

int rl_notify(struct rdma_cm_id *id, int event)
{
	return cm_result(rdma_notify(id, (enum ibv_event_type)event));
}

int rl_disconnect(struct rdma_cm_id *id)
{
	return cm_result(rdma_disconnect(id));
}

int rl_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	return cm_result(rdma_init_qp_attr(id, attr, mask));
}

int rl_migrate(struct rdma_cm_id *id, struct rdma_event_channel *to)
{
	return cm_result(rdma_migrate_id(id, to));
}

int rl_set_option(struct rdma_cm_id *id, int option, int value)
{
	uint8_t byte = value;

	if (option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT)
		return cm_result(rdma_set_option(id, RDMA_OPTION_ID, option, &byte, sizeof(byte)));
	return cm_result(rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof(value)));
}

/* Copies the address of this side to out, or the address of the peer if peer is not 0.
 * out has the size of a struct sockaddr_in6. An unknown address is all zero. */
void rl_addr(struct rdma_cm_id *id, int peer, uint8_t *out)
{
	struct sockaddr *addr = peer ? rdma_get_peer_addr(id) : rdma_get_local_addr(id);

	memcpy(out, addr, sizeof(struct sockaddr_in6));
}

int rl_destroy_id(struct rdma_cm_id *id)
{
	return cm_result(rdma_destroy_id(id));
}
