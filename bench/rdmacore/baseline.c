//go:build rdmacore && cgo && linux

#include "baseline.h"
#include "stub.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* As in the other steps: the number of receive buffers, and the number of sends for each
 * completion. */
enum { BUFFERS = 32, SIGNAL_EVERY = 16 };

struct end {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory; /* BUFFERS buffers of SLOT_BYTES bytes */
	uint32_t sent;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int post_recv(struct end *e, uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + i * SLOT_BYTES, SLOT_BYTES, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

static int post_send(struct end *e, const uint8_t *data, int size)
{
	struct ibv_sge sge = { (uintptr_t)data, size, 0 };
	struct ibv_send_wr wr = { .wr_id = BUFFERS, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE }, *bad;

	if (++e->sent % SIGNAL_EVERY == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	return ibv_post_send(e->qp, &wr, &bad);
}

/* Polls until a message arrives. Returns the number of its buffer, or -1. */
static int await_message(struct end *e)
{
	struct ibv_wc wc;

	for (;;) {
		int n = ibv_poll_cq(e->cq, 1, &wc);

		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			return -1;
		if (n && wc.wr_id < BUFFERS)
			return wc.wr_id;
	}
}

static int open_end(struct end *e)
{
	struct ibv_pd *pd = ibv_alloc_pd(&stub_context);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };

	e->cq = attr.send_cq = attr.recv_cq = ibv_create_cq(&stub_context, 256, NULL, NULL, 0);
	attr.cap.max_recv_wr = BUFFERS;
	e->memory = calloc(BUFFERS, SLOT_BYTES);
	e->qp = pd && e->cq ? ibv_create_qp(pd, &attr) : NULL;
	e->mr = pd && e->memory ? ibv_reg_mr(pd, e->memory, BUFFERS * SLOT_BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!e->qp || !e->mr)
		return ENOMEM;
	for (int i = 0; i < BUFFERS; i++)
		if (post_recv(e, i))
			return EIO;
	ibv_modify_qp(e->qp, &rtr, IBV_QP_STATE);
	ibv_modify_qp(e->qp, &rts, IBV_QP_STATE);
	stub_meet();
	return 0;
}

int baseline(int size, int rounds, int chunks, int first, uint64_t *times)
{
	struct end e = { 0 };
	int failed = open_end(&e);

	if (!failed && first)
		failed = post_send(&e, e.memory, size);
	for (int c = 0; c < chunks && !failed; c++) {
		uint64_t begin = now();

		for (int i = 0; i < rounds && !failed; i++) {
			int got = await_message(&e);

			if (got < 0)
				return EIO;
			if (!first || c < chunks - 1 || i < rounds - 1)
				failed = post_send(&e, e.memory + got * SLOT_BYTES, size);
			failed |= post_recv(&e, got);
		}
		times[c] = now() - begin;
	}
	return failed;
}
