//go:build rdmacore && cgo && linux

#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

/* The number of requests that one call of the library posts, as a linked list. */
enum { CHAIN = 64 };

/* The number of completions that one call of ibv_poll_cq asks for. */
enum { POLL = 32 };

static void fill_send(struct ibv_send_wr *wr, const struct rl_send *r, struct ibv_sge *sges)
{
	wr->wr_id = r->id;
	wr->sg_list = sges;
	wr->num_sge = r->sges;
	wr->opcode = r->opcode;
	wr->send_flags = r->flags;
	wr->imm_data = htonl(r->imm);
	if (r->ah) {
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

struct rl_posted rl_post_send(uintptr_t qp, const struct rl_send *reqs, int n,
			      struct ibv_sge *sges, const uint8_t *inline_data)
{
	struct ibv_send_wr wr[CHAIN], *bad;
	struct rl_posted done = { 0, 0 };

	while (done.n < n && !done.err) {
		int len = n - done.n < CHAIN ? n - done.n : CHAIN;

		for (int i = 0; i < len; i++, reqs++) {
			if (reqs->flags & IBV_SEND_INLINE)
				for (uint32_t k = 0; k < reqs->sges; k++)
					sges[k].addr += (uintptr_t)inline_data;
			fill_send(&wr[i], reqs, sges);
			wr[i].next = &wr[i + 1];
			sges += reqs->sges;
		}
		wr[len - 1].next = NULL;
		bad = NULL;
		done.err = verbs_result(ibv_post_send((struct ibv_qp *)qp, wr, &bad));
		done.n += done.err ? (bad ? bad - wr : 0) : len;
	}
	return done;
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

/* Posts to the shared receive queue srq. If srq is NULL, posts to the receive queue of
 * qp. */
static struct rl_posted post_recv(struct ibv_qp *qp, struct ibv_srq *srq, const struct rl_recv *reqs, int n,
				  struct ibv_sge *sges)
{
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct rl_posted done = { 0, 0 };

	while (done.n < n && !done.err) {
		int len = n - done.n < CHAIN ? n - done.n : CHAIN;

		fill_recv(wr, reqs + done.n, len, &sges);
		bad = NULL;
		done.err = verbs_result(srq ? ibv_post_srq_recv(srq, wr, &bad) : ibv_post_recv(qp, wr, &bad));
		done.n += done.err ? (bad ? bad - wr : 0) : len;
	}
	return done;
}

struct rl_posted rl_post_recv(uintptr_t qp, const struct rl_recv *reqs, int n, struct ibv_sge *sges)
{
	return post_recv((struct ibv_qp *)qp, NULL, reqs, n, sges);
}

struct rl_posted rl_post_srq_recv(uintptr_t srq, const struct rl_recv *reqs, int n, struct ibv_sge *sges)
{
	return post_recv(NULL, (struct ibv_srq *)srq, reqs, n, sges);
}

/* Rings the doorbell of a send queue of rxe without posting a request. For that purpose
 * the function tries to post an atomic that has no memory for the result. librxe refuses
 * the atomic and rings the doorbell nevertheless. */
void rl_ring_doorbell(uintptr_t qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD }, *bad;

	ibv_post_send((struct ibv_qp *)qp, &wr, &bad);
}

/* Converts an opcode to a verbs.WCOpcode, in which the opcodes of receives follow the
 * other opcodes without a gap. The result 255 means an operation that this package does
 * not use. */
static uint8_t wc_opcode(enum ibv_wc_opcode op)
{
	if (op == IBV_WC_RECV)
		return 5;
	if (op == IBV_WC_RECV_RDMA_WITH_IMM)
		return 6;
	return op <= IBV_WC_FETCH_ADD ? op : 255;
}

static void fill_wc(struct rl_wc *out, const struct ibv_wc *wc)
{
	memset(out, 0, sizeof(*out));
	out->id = wc->wr_id;
	out->status = wc->status;
	out->qpn = wc->qp_num;
	out->vendor_err = wc->vendor_err;
	if (wc->status != IBV_WC_SUCCESS)
		return; /* no other field is valid: ibv_poll_cq(3) */
	out->opcode = wc_opcode(wc->opcode);
	out->flags = wc->wc_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM);
	out->byte_len = wc->byte_len;
	out->src_qpn = wc->src_qp;
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		out->imm = ntohl(wc->imm_data);
}

/* Fetches up to n completions. Returns their number, or -EIO if the device can not read
 * the queue. */
int rl_poll(uintptr_t cq, struct rl_wc *dst, int n)
{
	struct ibv_wc wc[POLL];
	int done = 0;

	while (done < n) {
		int want = n - done < POLL ? n - done : POLL;
		int got = ibv_poll_cq((struct ibv_cq *)cq, want, wc);

		if (got < 0)
			return done ? done : -EIO;
		for (int i = 0; i < got; i++)
			fill_wc(&dst[done++], &wc[i]);
		if (got < want)
			break;
	}
	return done;
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
