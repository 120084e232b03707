//go:build rdmacore && cgo && linux

#include "stub_data.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns zeroed memory for an object, or NULL with errno set. */
static void *make(size_t size) { return calloc(1, size); }

static int discard(void *object)
{
	free(object);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = make(sizeof(*pd));

	if (pd)
		pd->context = ctx;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) { return discard(pd); }

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = make(sizeof(*mr));

	(void)iova, (void)access;
	if (mr) {
		mr->context = pd->context;
		mr->pd = pd;
		mr->addr = addr;
		mr->length = length;
	}
	return mr;
}

struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

int ibv_dereg_mr(struct ibv_mr *mr) { return discard(mr); }

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	close(c->fd);
	return discard(c);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *context, struct ibv_comp_channel *channel,
			     int vector)
{
	struct stub_cq *c = make(sizeof(*c));

	(void)vector;
	if (!c)
		return NULL;
	c->cq.context = ctx;
	c->cq.channel = channel;
	c->cq.cq_context = context;
	c->cq.cqe = cqe;
	return &c->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	cq->cqe = cqe;
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq) { return discard(cq); }

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct stub_srq *s = make(sizeof(*s));

	if (!s || buffers_init(&s->buffers, attr->attr.max_wr)) {
		free(s);
		return NULL;
	}
	s->srq.context = pd->context;
	s->srq.pd = pd;
	return &s->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq, (void)attr, (void)mask;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	free(((struct stub_srq *)srq)->buffers.list);
	return discard(srq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t last_number = 16;
	struct stub_qp *q;

	if (attr->cap.max_inline_data > SLOT_BYTES) {
		errno = EINVAL;
		return NULL;
	}
	q = make(sizeof(*q));
	if (!q || (!attr->srq && buffers_init(&q->own, attr->cap.max_recv_wr))) {
		free(q);
		return NULL;
	}
	q->buffers = attr->srq ? &((struct stub_srq *)attr->srq)->buffers : &q->own;
	q->signal_all = attr->sq_sig_all;
	q->qp.context = pd->context;
	q->qp.pd = pd;
	q->qp.send_cq = attr->send_cq;
	q->qp.recv_cq = attr->recv_cq;
	q->qp.srq = attr->srq;
	q->qp.qp_type = attr->qp_type;
	q->qp.state = IBV_QPS_RESET;
	q->qp.qp_num = ++last_number;
	return &q->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (!(mask & IBV_QP_STATE))
		return 0;
	if (attr->qp_state == IBV_QPS_ERR)
		stub_fail(qp);
	qp->state = attr->qp_state;
	if (qp->state == IBV_QPS_RTR)
		stub_connect(qp);
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)mask, (void)init;
	attr->qp_state = attr->cur_qp_state = qp->state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct stub_cq *cq = (struct stub_cq *)qp->recv_cq;

	if (cq->receiver == (struct stub_qp *)qp)
		cq->receiver = NULL;
	free(((struct stub_qp *)qp)->own.list);
	return discard(qp);
}
