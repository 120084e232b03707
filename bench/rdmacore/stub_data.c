//go:build rdmacore && cgo && linux

#include "stub_data.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

int buffers_init(struct buffers *b, uint32_t n)
{
	b->size = 1;
	while (b->size < n)
		b->size *= 2;
	b->list = calloc(b->size, sizeof(*b->list));
	return b->list ? 0 : ENOMEM;
}

static int post_buffers(struct buffers *b, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct buffer *to = &b->list[b->head & (b->size - 1)];

		*bad = wr;
		if (b->head - b->tail == b->size)
			return ENOMEM;
		to->id = wr->wr_id;
		to->len = 0;
		if (wr->num_sge > 0) {
			to->addr = (uint8_t *)(uintptr_t)wr->sg_list->addr;
			to->len = wr->sg_list->length;
		}
		b->head++;
	}
	return 0;
}

int stub_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_buffers(((struct stub_qp *)qp)->buffers, wr, bad);
}

int stub_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_buffers(&((struct stub_srq *)srq)->buffers, wr, bad);
}

/* Adds the completion of a send. */
static int complete(struct stub_qp *q, const struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct stub_cq *cq = (struct stub_cq *)q->qp.send_cq;
	uint32_t size = sizeof(cq->done) / sizeof(cq->done[0]);
	struct ibv_wc *wc = &cq->done[cq->head % size];

	if (cq->head - cq->tail == size)
		return ENOMEM;
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr->wr_id;
	wc->status = status;
	wc->opcode = wr->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
	wc->qp_num = q->qp.qp_num;
	cq->head++;
	return 0;
}

/* Copies a message to the next slot of the ring. */
static int transmit(struct stub_qp *q, const struct ibv_send_wr *wr)
{
	struct slot *to = &q->out[q->sent % SLOTS];
	uint32_t len = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > SLOT_BYTES - len)
			return EINVAL;
		memcpy(to->data + len, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		len += wr->sg_list[i].length;
	}
	to->len = len;
	q->sent++;
	__atomic_store_n(&to->seq, q->sent, __ATOMIC_RELEASE);
	return 0;
}

/* Executes send requests. A WRITE does nothing, because the program sends only empty
 * WRITEs. With these, a connection checks whether its peer is alive. */
int stub_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct stub_qp *q = (struct stub_qp *)qp;
	int failed = qp->state == IBV_QPS_ERR;
	int ret = 0;

	for (; wr && !ret; wr = wr->next) {
		*bad = wr;
		if (!failed && wr->opcode == IBV_WR_SEND)
			ret = transmit(q, wr);
		if (!ret && (failed || q->signal_all || wr->send_flags & IBV_SEND_SIGNALED))
			ret = complete(q, wr, failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
	}
	return ret;
}

/* Receives a message, or flushes a receive buffer if the queue pair is in ERROR. Returns
 * the number of completions, 0 or 1. */
static int receive(struct stub_qp *q, struct ibv_wc *wc)
{
	struct buffers *b = q->buffers;
	struct buffer *to = &b->list[b->tail & (b->size - 1)];
	struct slot *from = &q->in[q->received % SLOTS];
	int failed = q->qp.state == IBV_QPS_ERR;

	if (!failed && __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE) != q->received + 1)
		return 0;
	if (b->tail == b->head || (failed && b != &q->own))
		return 0;
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = to->id;
	wc->opcode = IBV_WC_RECV;
	wc->qp_num = q->qp.qp_num;
	if (failed) {
		wc->status = IBV_WC_WR_FLUSH_ERR;
	} else if (from->len > to->len) {
		wc->status = IBV_WC_LOC_LEN_ERR;
	} else {
		memcpy(to->addr, from->data, from->len);
		wc->byte_len = from->len;
	}
	q->received += !failed;
	b->tail++;
	return 1;
}

int stub_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct stub_cq *c = (struct stub_cq *)cq;
	int found = 0;

	for (; found < n && c->tail != c->head; found++)
		wc[found] = c->done[c->tail++ % (sizeof(c->done) / sizeof(c->done[0]))];
	while (found < n && c->receiver && receive(c->receiver, &wc[found]))
		found++;
	return found;
}

void stub_connect(struct ibv_qp *qp)
{
	struct stub_qp *q = (struct stub_qp *)qp;

	q->out = stub_memory->rings[stub_side];
	q->in = stub_memory->rings[!stub_side];
	((struct stub_cq *)qp->recv_cq)->receiver = q;
}

int stub_meet(void)
{
	__atomic_store_n(&stub_memory->ready[stub_side], 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stub_memory->ready[!stub_side], __ATOMIC_ACQUIRE))
		sched_yield();
	return 0;
}
