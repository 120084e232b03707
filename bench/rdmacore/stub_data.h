/* The objects of the stub's data path. */
#ifndef RDMALOOP_STUB_DATA_H
#define RDMALOOP_STUB_DATA_H

#include "stub.h"

/* One posted receive buffer. */
struct buffer {
	uint64_t id;
	uint8_t *addr;
	uint32_t len;
};

/* Posted receive buffers. head and tail count the posted and the used buffers. */
struct buffers {
	uint32_t size; /* a power of two */
	uint32_t head, tail;
	struct buffer *list;
};

struct stub_srq {
	struct ibv_srq srq;
	struct buffers buffers;
};

/* A completion queue. The list done has the completions of sends. */
struct stub_cq {
	struct ibv_cq cq;
	struct stub_qp *receiver; /* the connected queue pair that receives to this queue */
	uint32_t head, tail;
	struct ibv_wc done[256];
};

struct stub_qp {
	struct ibv_qp qp;
	struct slot *out, *in; /* NULL until the queue pair is connected */
	uint32_t sent, received;
	int signal_all;
	struct buffers own;
	struct buffers *buffers; /* own, or the buffers of the shared receive queue */
};

/* Makes buffers for at least n requests. Returns 0 or an errno. */
int buffers_init(struct buffers *b, uint32_t n);

#endif
