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

/* Posted receive buffers. head counts the posted buffers, and tail the used buffers. */
struct buffers {
	uint32_t size; /* a power of two */
	uint32_t head, tail;
	struct buffer *list;
};

struct stub_srq {
	struct ibv_srq srq;
	struct buffers buffers;
};

/* A completion queue. The array done has the completions of sends. head counts the
 * completions that were added, and tail the completions that were polled. */
struct stub_cq {
	struct ibv_cq cq;
	struct stub_qp *receiver; /* the connected queue pair that uses this queue for receives */
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

/* Allocates memory for at least n buffers. Returns 0 or an errno. */
int buffers_init(struct buffers *b, uint32_t n);

#endif
