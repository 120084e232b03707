/* A stub of libibverbs and librdmacm, with a device that takes no time. The stub has the
 * functions that provider/rdmacore calls. In a program that is linked to the stub, the
 * linker takes these functions instead of those of the libraries. In other programs the
 * stub is a library, which the provider opens in place of both.
 *
 * The device connects two processes. Each process has one queue pair, which sends
 * messages through a ring in shared memory. Completions raise no events, so a loop must
 * poll. */
#ifndef RDMALOOP_STUB_H
#define RDMALOOP_STUB_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The slots of a ring. A sender must not be SLOTS messages ahead of the receiver. The
 * sides wait for each other's answers, so this never happens. */
enum { SLOTS = 64, SLOT_BYTES = 120 };

/* Sizes that the device reports. Arbitrary. */
enum { MAX_WR = 16384, MAX_OBJECTS = 1024 };

/* One message. seq is the number of the message, counted from 1. The sender writes seq
 * last. */
struct slot {
	uint32_t seq;
	uint32_t len;
	uint8_t data[SLOT_BYTES];
} __attribute__((aligned(128)));

/* The shared memory. Process i, which is 0 or 1, writes to rings[i]. */
struct shared {
	struct slot rings[2][SLOTS];
	uint32_t ready[2]; /* 1 if process i can receive */
};

/* The memory, the number of this process, and the socket for connection messages. */
extern struct shared *stub_memory;
extern int stub_side;
extern int stub_socket;

/* Sets the variables above, and starts the thread that receives connection messages.
 * Returns 0 or an errno. */
int stub_start(int memory, int socket, int side);

/* Connects a queue pair to the shared memory. */
void stub_connect(struct ibv_qp *qp);

/* Tells the peer that this process can receive, and waits until the peer can receive.
 * Returns 0. */
int stub_meet(void);

/* The context of the device: stub_device.c. */
extern struct ibv_context stub_context;
void stub_fail(struct ibv_qp *qp);

/* The data path of the device: stub_data.c. */
int stub_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int stub_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int stub_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int stub_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

#endif
