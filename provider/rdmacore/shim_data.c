//go:build cgo && linux

#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

/* The largest number of requests in one call of the library, which gets them as a linked
 * list. */
enum { CHAIN = 64 };

static void fill_bind(struct ibv_send_wr *wr, const struct rl_send *r)
{
	wr->imm_data = 0;
	wr->bind_mw.mw = (struct ibv_mw *)(uintptr_t)r->ah;
	wr->bind_mw.rkey = r->rkey;
	wr->bind_mw.bind_info.mr = (struct ibv_mr *)(uintptr_t)r->swap;
	wr->bind_mw.bind_info.addr = r->remote_addr;
	wr->bind_mw.bind_info.length = r->compare_add;
	wr->bind_mw.bind_info.mw_access_flags = r->imm;
}

static void fill_send(struct ibv_send_wr *wr, const struct rl_send *r, struct ibv_sge *sges)
{
	wr->wr_id = r->id;
	wr->sg_list = sges;
	wr->num_sge = r->sges;
	wr->opcode = r->opcode;
	wr->send_flags = r->flags;
	wr->imm_data = htonl(r->imm);
	if (r->opcode == IBV_WR_BIND_MW) {
		fill_bind(wr, r);
	} else if (r->opcode == IBV_WR_LOCAL_INV || r->opcode == IBV_WR_SEND_WITH_INV) {
		wr->invalidate_rkey = r->rkey;
	} else if (r->ah) {
		wr->wr.ud.ah = (struct ibv_ah *)(uintptr_t)r->ah;
		wr->wr.ud.remote_qpn = r->remote_qpn;
		wr->wr.ud.remote_qkey = r->remote_qkey;
	} else if (r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = r->remote_addr;
		wr->wr.atomic.rkey = r->rkey;
		wr->wr.atomic.compare_add = r->compare_add;
		wr->wr.atomic.swap = r->swap;
	} else {
		wr->wr.rdma.remote_addr = r->remote_addr;
		wr->wr.rdma.rkey = r->rkey;
	}
}

/* Makes a chain of up to CHAIN requests, beginning at the request p->done. A bind is the
 * last request of its chain. Returns the length of the chain. */
static int fill_chain(struct ibv_send_wr *wr, const struct rl_post *p, struct ibv_sge **sges)
{
	const struct rl_send *reqs = (const struct rl_send *)p->reqs + p->done;
	int left = p->n - p->done, len = 0;

	do {
		const struct rl_send *r = &reqs[len];

		if (r->flags & IBV_SEND_INLINE)
			for (uint32_t k = 0; k < r->sges; k++)
				(*sges)[k].addr += p->inline_data;
		fill_send(&wr[len], r, *sges);
		wr[len].next = &wr[len + 1];
		*sges += r->sges;
	} while (reqs[len++].opcode != IBV_WR_BIND_MW && len < left && len < CHAIN);
	wr[len - 1].next = NULL;
	return len;
}

/* Posts send requests in chains. The library reads the previous key of a window from
 * struct ibv_mw, and the caller has to store the new one (ibv_bind_mw(3)). So the function
 * stores it after the chain with the bind, before another bind of the window. */
void rl_post_send(void *args, const void *data)
{
	struct rl_post *p = args;
	struct ibv_sge *sges = (struct ibv_sge *)p->sges;
	struct ibv_send_wr wr[CHAIN], *bad;

	(void)data;
	for (p->done = p->err = 0; p->done < p->n && !p->err;) {
		int len = fill_chain(wr, p, &sges);

		bad = NULL;
		p->err = verbs_result(ibv_post_send((struct ibv_qp *)p->queue, wr, &bad));
		p->done += p->err ? (bad ? bad - wr : 0) : len;
		if (!p->err && wr[len - 1].opcode == IBV_WR_BIND_MW)
			wr[len - 1].bind_mw.mw->rkey = wr[len - 1].bind_mw.rkey;
	}
}

/* Posts one SEND with inline data. */
void rl_send_inline(void *args, const void *data)
{
	struct rl_inline *r = args;
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = r->len };
	struct ibv_send_wr wr, *bad;

	wr.wr_id = r->id;
	wr.next = NULL;
	wr.sg_list = &sge;
	wr.num_sge = r->len > 0;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = r->flags | IBV_SEND_INLINE;
	r->err = verbs_result(ibv_post_send((struct ibv_qp *)r->qp, &wr, &bad));
}

static void fill_recv(struct ibv_recv_wr *wr, const struct rl_recv *reqs, int n, struct ibv_sge **sges)
{
	for (int i = 0; i < n; i++) {
		wr[i].wr_id = reqs[i].id;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = *sges;
		wr[i].num_sge = reqs[i].sges;
		*sges += reqs[i].sges;
	}
}

/* Posts receive requests to srq, or to the receive queue of qp if srq is NULL. */
static void post_recv(struct ibv_qp *qp, struct ibv_srq *srq, struct rl_post *p)
{
	const struct rl_recv *reqs = (const struct rl_recv *)p->reqs;
	struct ibv_sge *sges = (struct ibv_sge *)p->sges;
	struct ibv_recv_wr wr[CHAIN], *bad;

	for (p->done = p->err = 0; p->done < p->n && !p->err;) {
		int len = p->n - p->done < CHAIN ? p->n - p->done : CHAIN;

		fill_recv(wr, reqs + p->done, len, &sges);
		bad = NULL;
		p->err = verbs_result(srq ? ibv_post_srq_recv(srq, wr, &bad) : ibv_post_recv(qp, wr, &bad));
		p->done += p->err ? (bad ? bad - wr : 0) : len;
	}
}

void rl_post_recv(void *args, const void *data)
{
	struct rl_post *p = args;

	(void)data;
	post_recv((struct ibv_qp *)p->queue, NULL, p);
}

void rl_post_srq_recv(void *args, const void *data)
{
	struct rl_post *p = args;

	(void)data;
	post_recv(NULL, (struct ibv_srq *)p->queue, p);
}

/* Rings the doorbell of a send queue of rxe without posting a request. The function
 * tries to post an atomic that has no memory for the result. librxe refuses the atomic,
 * but rings the doorbell nevertheless. */
void rl_ring_doorbell(uintptr_t qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD }, *bad;

	ibv_post_send((struct ibv_qp *)qp, &wr, &bad);
}

void rl_poll(void *args, const void *data)
{
	struct rl_poll *p = args;

	(void)data;
	p->found = ibv_poll_cq((struct ibv_cq *)p->cq, p->n, (struct ibv_wc *)p->wcs);
	if (p->found < 0)
		p->found = -EIO;
}

void rl_call(uintptr_t fn, uintptr_t args, const uint8_t *data)
{
	((void (*)(void *, const void *))fn)((void *)args, data);
}

int rl_arm(uintptr_t cq, int solicited_only)
{
	return verbs_result(ibv_req_notify_cq((struct ibv_cq *)cq, solicited_only));
}

/* Fetches one event and stores the address of its CQ. Returns 1, or 0 if there is no
 * event. */
int rl_next_cq_event(uintptr_t channel, uint64_t *cq)
{
	struct ibv_cq *fired;
	void *context;

	if (ibv_get_cq_event((struct ibv_comp_channel *)channel, &fired, &context))
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	*cq = (uintptr_t)fired;
	return 1;
}
