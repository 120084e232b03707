/* The functions through which Go calls libibverbs and librdmacm. A function returns 0 or
 * a negated errno, unless its comment says otherwise. Structs that pass between C and Go
 * have no pointers. */
#ifndef RDMALOOP_SHIM_H
#define RDMALOOP_SHIM_H

#include <errno.h>
#include <stdint.h>

#include "rdma.h"

/* The arguments and the result of a call that posts n requests. queue is the address of
 * a queue pair or SRQ. reqs, sges and inline_data are the addresses of the arrays in
 * queues.go. done is the number of requests that the device has accepted. If the device
 * has refused the next request, err is a negated errno; otherwise err is 0. */
struct rl_post {
	uintptr_t queue;
	uintptr_t reqs;
	uintptr_t sges;
	uintptr_t inline_data;
	int32_t n;
	int32_t done;
	int32_t err;
};

/* The arguments and the result of rl_send_inline, which sends len bytes. err is 0 or a
 * negated errno. */
struct rl_inline {
	uintptr_t qp;
	uint64_t id;
	uint32_t len;
	uint32_t flags;
	int32_t err;
};

/* The arguments and the result of rl_poll, which fetches up to n completions. wcs is the
 * address of an array of struct ibv_wc. found is the number of completions, or -EIO if
 * the device can not read the queue. */
struct rl_poll {
	uintptr_t cq;
	uintptr_t wcs;
	int32_t n;
	int32_t found;
};

/* One send request of a batch. The scatter/gather entries of all requests are in one
 * array, in the order of the requests. sges is the number of entries of this request. If
 * the request has inline data, the address in its entry is an offset into the inline
 * data of the batch.
 *
 * For IBV_WR_BIND_MW, some fields have another meaning: remote_addr and compare_add are
 * the address and the length of the window, swap is the address of the struct ibv_mr, ah
 * is the address of the struct ibv_mw, rkey is the new key, and imm the access rights. */
struct rl_send {
	uint64_t id;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint64_t ah;
	uint32_t rkey;
	uint32_t imm;
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint32_t sges;
	uint8_t opcode;
	uint8_t flags;
};

struct rl_recv {
	uint64_t id;
	uint64_t sges;
};

/* Connection parameters with their private data. */
struct rl_param {
	uint32_t qp_num;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint8_t data_len;
	uint8_t data[256];
};

struct rl_event {
	uint64_t id;
	uint64_t listener;
	int32_t type;
	int32_t status;
	struct rl_param param;
	uint32_t qkey;
	struct ibv_ah_attr ah;
};

/* One asynchronous event. object is the address of the QP, CQ or SRQ that the event is
 * about, or 0. port is the number of the port that the event is about, or 0. */
struct rl_async {
	uint64_t object;
	uint32_t type;
	uint32_t port;
};

/* Converts the result of a function of libibverbs to 0 or a negated errno. Most
 * functions of libibverbs return an errno; some return -1 and set errno. */
static inline int verbs_result(int ret)
{
	return ret < 0 ? -errno : -ret;
}

/* Devices: shim_device.c. */
int rl_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr);
int rl_max_inline(struct ibv_context *ctx, int limit);
int rl_can_resize(struct ibv_context *ctx);
struct ibv_mr *rl_reg_mr(struct ibv_pd *pd, uint64_t addr, uint64_t length, int access);
int rl_nonblock(int fd);
int rl_next_async(struct ibv_context *ctx, struct rl_async *ev);
int rl_release_device(struct ibv_context *ctx);

/* The data path: shim_data.c. The functions with a parameter args return at once, so
 * package ccall may call them. Only rl_send_inline uses data. */
void rl_post_send(void *args, const void *data);
void rl_post_recv(void *args, const void *data);
void rl_post_srq_recv(void *args, const void *data);
void rl_send_inline(void *args, const void *data);
void rl_poll(void *args, const void *data);

/* Calls one of these functions through cgo. The addresses are integers, because cgo
 * checks for each pointer argument whether it points to Go memory with pointers. */
void rl_call(uintptr_t fn, uintptr_t args, const uint8_t *data);

/* These functions take integers for the same reason. */
void rl_ring_doorbell(uintptr_t qp);
int rl_arm(uintptr_t cq, int solicited_only);
int rl_next_cq_event(uintptr_t channel, uint64_t *cq);

/* Connections: shim_cm.c. */
int rl_next_event(struct rdma_event_channel *channel, struct rl_event *out);
int rl_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, int ps);
int rl_bind(struct rdma_cm_id *id, uint8_t *addr);
int rl_resolve_addr(struct rdma_cm_id *id, uint8_t *src, uint8_t *dst, int ms);
int rl_resolve_route(struct rdma_cm_id *id, int ms);
int rl_listen(struct rdma_cm_id *id, int backlog);
int rl_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int rl_connect(struct rdma_cm_id *id, const struct rl_param *p);
int rl_accept(struct rdma_cm_id *id, const struct rl_param *p);
int rl_reject(struct rdma_cm_id *id, const uint8_t *data, uint8_t len);
int rl_establish(struct rdma_cm_id *id);
int rl_notify(struct rdma_cm_id *id, int event);
int rl_disconnect(struct rdma_cm_id *id);
int rl_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int rl_migrate(struct rdma_cm_id *id, struct rdma_event_channel *to);
int rl_set_option(struct rdma_cm_id *id, int option, int value);
void rl_addr(struct rdma_cm_id *id, int peer, uint8_t *out);
int rl_destroy_id(struct rdma_cm_id *id);

#endif
