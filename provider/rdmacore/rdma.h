/* The part of libibverbs and librdmacm that this package uses, so that building it needs
 * neither headers nor libraries of rdma-core. rl_load() in load.c finds the functions when
 * a program opens the provider.
 *
 * The names and layouts are those of rdma-core, whose libraries keep them since
 * IBVERBS_1.1 and RDMACM_1.0. A structure that the libraries allocate ends here after the
 * last field that is used. TestLayout compares everything with the headers of rdma-core.
 *
 * With the build tag rdmacore, which bench/rdmacore uses to measure what the indirection
 * takes, the headers are included instead and the program is linked to the libraries. */
#ifndef RDMALOOP_RDMA_H
#define RDMALOOP_RDMA_H

/* Functions that the libraries export: F(library, version of the symbol, result, name,
 * parameters, arguments). */
#define RL_FUNCTIONS(F) \
	F(VERBS, "IBVERBS_1.1", struct ibv_device **, ibv_get_device_list, (int *n), (n)) \
	F(VERBS, "IBVERBS_1.1", void, ibv_free_device_list, (struct ibv_device **list), (list)) \
	F(VERBS, "IBVERBS_1.1", const char *, ibv_get_device_name, (struct ibv_device *device), (device)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_query_device, \
	  (struct ibv_context *c, struct ibv_device_attr *a), (c, a)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_query_port, \
	  (struct ibv_context *c, uint8_t port, struct ibv_port_attr *a), (c, port, a)) \
	F(VERBS, "IBVERBS_1.11", ssize_t, _ibv_query_gid_table, \
	  (struct ibv_context *c, struct ibv_gid_entry *e, size_t n, uint32_t flags, \
	   size_t size), (c, e, n, flags, size)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_get_async_event, \
	  (struct ibv_context *c, struct ibv_async_event *e), (c, e)) \
	F(VERBS, "IBVERBS_1.1", void, ibv_ack_async_event, (struct ibv_async_event *e), (e)) \
	F(VERBS, "IBVERBS_1.1", struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *c), (c)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd)) \
	F(VERBS, "IBVERBS_1.1", struct ibv_mr *, ibv_reg_mr, \
	  (struct ibv_pd *pd, void *addr, size_t n, int access), (pd, addr, n, access)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_dereg_mr, (struct ibv_mr *mr), (mr)) \
	F(VERBS, "IBVERBS_1.0", struct ibv_comp_channel *, ibv_create_comp_channel, \
	  (struct ibv_context *c), (c)) \
	F(VERBS, "IBVERBS_1.0", int, ibv_destroy_comp_channel, (struct ibv_comp_channel *ch), (ch)) \
	F(VERBS, "IBVERBS_1.1", struct ibv_cq *, ibv_create_cq, \
	  (struct ibv_context *c, int n, void *u, struct ibv_comp_channel *ch, \
	   int vector), (c, n, u, ch, vector)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_resize_cq, (struct ibv_cq *cq, int n), (cq, n)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_destroy_cq, (struct ibv_cq *cq), (cq)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_get_cq_event, \
	  (struct ibv_comp_channel *ch, struct ibv_cq **cq, void **u), (ch, cq, u)) \
	F(VERBS, "IBVERBS_1.1", void, ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int n), (cq, n)) \
	F(VERBS, "IBVERBS_1.1", struct ibv_srq *, ibv_create_srq, \
	  (struct ibv_pd *pd, struct ibv_srq_init_attr *a), (pd, a)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_modify_srq, \
	  (struct ibv_srq *srq, struct ibv_srq_attr *a, int mask), (srq, a, mask)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_destroy_srq, (struct ibv_srq *srq), (srq)) \
	F(VERBS, "IBVERBS_1.1", struct ibv_qp *, ibv_create_qp, \
	  (struct ibv_pd *pd, struct ibv_qp_init_attr *a), (pd, a)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_modify_qp, \
	  (struct ibv_qp *qp, struct ibv_qp_attr *a, int mask), (qp, a, mask)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_query_qp, \
	  (struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, \
	   struct ibv_qp_init_attr *init), (qp, a, mask, init)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_destroy_qp, (struct ibv_qp *qp), (qp)) \
	F(VERBS, "IBVERBS_1.1", struct ibv_ah *, ibv_create_ah, \
	  (struct ibv_pd *pd, struct ibv_ah_attr *a), (pd, a)) \
	F(VERBS, "IBVERBS_1.1", int, ibv_destroy_ah, (struct ibv_ah *ah), (ah)) \
	F(CM, "RDMACM_1.0", struct ibv_context **, rdma_get_devices, (int *n), (n)) \
	F(CM, "RDMACM_1.0", void, rdma_free_devices, (struct ibv_context **list), (list)) \
	F(CM, "RDMACM_1.0", struct rdma_event_channel *, rdma_create_event_channel, (void), ()) \
	F(CM, "RDMACM_1.0", void, rdma_destroy_event_channel, (struct rdma_event_channel *ch), (ch)) \
	F(CM, "RDMACM_1.0", int, rdma_get_cm_event, \
	  (struct rdma_event_channel *ch, struct rdma_cm_event **e), (ch, e)) \
	F(CM, "RDMACM_1.0", int, rdma_ack_cm_event, (struct rdma_cm_event *e), (e)) \
	F(CM, "RDMACM_1.0", int, rdma_create_id, \
	  (struct rdma_event_channel *ch, struct rdma_cm_id **id, void *u, \
	   enum rdma_port_space ps), (ch, id, u, ps)) \
	F(CM, "RDMACM_1.0", int, rdma_destroy_id, (struct rdma_cm_id *id), (id)) \
	F(CM, "RDMACM_1.0", int, rdma_migrate_id, \
	  (struct rdma_cm_id *id, struct rdma_event_channel *ch), (id, ch)) \
	F(CM, "RDMACM_1.0", int, rdma_set_option, \
	  (struct rdma_cm_id *id, int level, int name, void *v, size_t n), (id, level, name, v, n)) \
	F(CM, "RDMACM_1.0", int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *a), (id, a)) \
	F(CM, "RDMACM_1.0", int, rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog)) \
	F(CM, "RDMACM_1.0", int, rdma_resolve_addr, \
	  (struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms), (id, src, dst, ms)) \
	F(CM, "RDMACM_1.0", int, rdma_resolve_route, (struct rdma_cm_id *id, int ms), (id, ms)) \
	F(CM, "RDMACM_1.0", int, rdma_create_qp, \
	  (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a), (id, pd, a)) \
	F(CM, "RDMACM_1.0", void, rdma_destroy_qp, (struct rdma_cm_id *id), (id)) \
	F(CM, "RDMACM_1.2", int, rdma_init_qp_attr, \
	  (struct rdma_cm_id *id, struct ibv_qp_attr *a, int *mask), (id, a, mask)) \
	F(CM, "RDMACM_1.0", int, rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *p), (id, p)) \
	F(CM, "RDMACM_1.0", int, rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *p), (id, p)) \
	F(CM, "RDMACM_1.0", int, rdma_reject, \
	  (struct rdma_cm_id *id, const void *data, uint8_t n), (id, data, n)) \
	F(CM, "RDMACM_1.2", int, rdma_establish, (struct rdma_cm_id *id), (id)) \
	F(CM, "RDMACM_1.0", int, rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type e), (id, e)) \
	F(CM, "RDMACM_1.0", int, rdma_disconnect, (struct rdma_cm_id *id), (id))

#ifdef RDMALOOP_LINKED

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#else

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Devices. */

enum ibv_transport_type { IBV_TRANSPORT_UNKNOWN = -1, IBV_TRANSPORT_IWARP = 1 };
enum ibv_device_cap_flags { IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24 };
enum ibv_atomic_cap { IBV_ATOMIC_NONE };
enum ibv_mtu { IBV_MTU_256 = 1, IBV_MTU_4096 = 5 };
enum ibv_port_state { IBV_PORT_DOWN = 1, IBV_PORT_ACTIVE = 4 };
enum { IBV_LINK_LAYER_ETHERNET = 2 };
enum ibv_gid_type { IBV_GID_TYPE_ROCE_V1 = 1 };

union ibv_gid {
	uint8_t raw[16];
	struct {
		uint64_t subnet_prefix, interface_id;
	} global;
};

struct ibv_device {
	struct {
		void *reserved[2];
	} _ops;
	int node_type;
	enum ibv_transport_type transport_type;
};

struct ibv_device_attr {
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
	int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	int max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu, active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply;
	uint8_t active_width, active_speed, phys_state, link_layer, flags;
	uint16_t port_cap_flags2;
};

struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index, port_num, gid_type, ndev_ifindex;
};

/* Memory. */

enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1 << 0,
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,
};

enum ibv_mw_type { IBV_MW_TYPE_2 = 2 };

struct ibv_pd {
	struct ibv_context *context;
};

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey;
};

struct ibv_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr, length;
	unsigned int mw_access_flags;
};

struct ibv_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

/* Completion queues. */

enum ibv_wc_status {
	IBV_WC_SUCCESS = 0,
	IBV_WC_LOC_LEN_ERR = 1,
	IBV_WC_LOC_QP_OP_ERR = 2,
	IBV_WC_LOC_PROT_ERR = 4,
	IBV_WC_WR_FLUSH_ERR = 5,
	IBV_WC_MW_BIND_ERR = 6,
	IBV_WC_BAD_RESP_ERR = 7,
	IBV_WC_REM_INV_REQ_ERR = 9,
	IBV_WC_REM_ACCESS_ERR = 10,
	IBV_WC_REM_OP_ERR = 11,
	IBV_WC_RETRY_EXC_ERR = 12,
	IBV_WC_RNR_RETRY_EXC_ERR = 13,
	IBV_WC_GENERAL_ERR = 21,
};

enum ibv_wc_opcode {
	IBV_WC_SEND = 0,
	IBV_WC_RDMA_WRITE = 1,
	IBV_WC_RDMA_READ = 2,
	IBV_WC_COMP_SWAP = 3,
	IBV_WC_FETCH_ADD = 4,
	IBV_WC_BIND_MW = 5,
	IBV_WC_LOCAL_INV = 6,
	IBV_WC_RECV = 1 << 7,
	IBV_WC_RECV_RDMA_WITH_IMM = IBV_WC_RECV + 1,
};

enum ibv_wc_flags { IBV_WC_GRH = 1 << 0, IBV_WC_WITH_IMM = 1 << 1, IBV_WC_WITH_INV = 1 << 3 };

struct ibv_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err, byte_len;
	union {
		uint32_t imm_data, invalidated_rkey;
	};
	uint32_t qp_num, src_qp;
	unsigned int wc_flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};

struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;
};

struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
};

/* Queue pairs. */

enum ibv_qp_type { IBV_QPT_RC = 2, IBV_QPT_UD = 4 };

enum ibv_qp_state {
	IBV_QPS_RESET = 0,
	IBV_QPS_INIT = 1,
	IBV_QPS_RTR = 2,
	IBV_QPS_RTS = 3,
	IBV_QPS_SQD = 4,
	IBV_QPS_SQE = 5,
	IBV_QPS_ERR = 6,
};

enum ibv_mig_state { IBV_MIG_MIGRATED };

enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,
	IBV_QP_ACCESS_FLAGS = 1 << 3,
	IBV_QP_PKEY_INDEX = 1 << 4,
	IBV_QP_PORT = 1 << 5,
	IBV_QP_QKEY = 1 << 6,
	IBV_QP_AV = 1 << 7,
	IBV_QP_PATH_MTU = 1 << 8,
	IBV_QP_TIMEOUT = 1 << 9,
	IBV_QP_RETRY_CNT = 1 << 10,
	IBV_QP_RNR_RETRY = 1 << 11,
	IBV_QP_RQ_PSN = 1 << 12,
	IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,
	IBV_QP_SQ_PSN = 1 << 16,
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IBV_QP_DEST_QPN = 1 << 20,
};

struct ibv_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class;
};

struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct ibv_qp_attr {
	enum ibv_qp_state qp_state, cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	unsigned int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer;
	uint8_t port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint32_t rate_limit;
};

struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle, qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
};

enum ibv_srq_attr_mask { IBV_SRQ_LIMIT = 1 << 1 };

struct ibv_srq_attr {
	uint32_t max_wr, max_sge, srq_limit;
};

struct ibv_srq_init_attr {
	void *srq_context;
	struct ibv_srq_attr attr;
};

struct ibv_srq {
	struct ibv_context *context;
};

struct ibv_ah {
	struct ibv_context *context;
};

/* Work requests. */

enum ibv_wr_opcode {
	IBV_WR_RDMA_WRITE = 0,
	IBV_WR_RDMA_WRITE_WITH_IMM = 1,
	IBV_WR_SEND = 2,
	IBV_WR_SEND_WITH_IMM = 3,
	IBV_WR_RDMA_READ = 4,
	IBV_WR_ATOMIC_CMP_AND_SWP = 5,
	IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
	IBV_WR_LOCAL_INV = 7,
	IBV_WR_BIND_MW = 8,
	IBV_WR_SEND_WITH_INV = 9,
};

enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0,
	IBV_SEND_SIGNALED = 1 << 1,
	IBV_SEND_SOLICITED = 1 << 2,
	IBV_SEND_INLINE = 1 << 3,
};

struct ibv_send_wr {
	uint64_t wr_id;
	struct ibv_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags;
	union {
		uint32_t imm_data, invalidate_rkey;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
	};
};

struct ibv_recv_wr {
	uint64_t wr_id;
	struct ibv_recv_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
};

/* Asynchronous events. */

enum ibv_event_type {
	IBV_EVENT_CQ_ERR = 0,
	IBV_EVENT_QP_FATAL = 1,
	IBV_EVENT_QP_REQ_ERR = 2,
	IBV_EVENT_QP_ACCESS_ERR = 3,
	IBV_EVENT_COMM_EST = 4,
	IBV_EVENT_SQ_DRAINED = 5,
	IBV_EVENT_PATH_MIG = 6,
	IBV_EVENT_PATH_MIG_ERR = 7,
	IBV_EVENT_DEVICE_FATAL = 8,
	IBV_EVENT_PORT_ACTIVE = 9,
	IBV_EVENT_PORT_ERR = 10,
	IBV_EVENT_SRQ_ERR = 14,
	IBV_EVENT_SRQ_LIMIT_REACHED = 15,
	IBV_EVENT_QP_LAST_WQE_REACHED = 16,
	IBV_EVENT_WQ_FATAL = 19,
};

struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};

/* The functions that a driver provides. The libraries have no symbols for them. */
struct ibv_context_ops {
	void *reserved1[7];
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *, enum ibv_mw_type);
	void *reserved2;
	int (*dealloc_mw)(struct ibv_mw *);
	void *reserved3;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*req_notify_cq)(struct ibv_cq *, int);
	void *reserved4[7];
	int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	void *reserved5[4];
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	void *reserved6[5];
};

struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	int cmd_fd, async_fd, num_comp_vectors;
};

static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (!pd->context->ops.alloc_mw) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return pd->context->ops.alloc_mw(pd, type);
}

static inline int ibv_dealloc_mw(struct ibv_mw *mw) { return mw->context->ops.dealloc_mw(mw); }

static inline int ibv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	return cq->context->ops.poll_cq(cq, n, wcs);
}

static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return qp->context->ops.post_send(qp, wr, bad);
}

static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return qp->context->ops.post_recv(qp, wr, bad);
}

static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return srq->context->ops.post_srq_recv(srq, wr, bad);
}

/* Connections. */

enum rdma_port_space { RDMA_PS_TCP = 0x0106, RDMA_PS_UDP = 0x0111 };
enum { RDMA_UDP_QKEY = 0x01234567 };
enum { RDMA_OPTION_ID = 0 };
enum {
	RDMA_OPTION_ID_TOS = 0,
	RDMA_OPTION_ID_REUSEADDR = 1,
	RDMA_OPTION_ID_AFONLY = 2,
	RDMA_OPTION_ID_ACK_TIMEOUT = 3,
};

enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED = 0,
	RDMA_CM_EVENT_ADDR_ERROR = 1,
	RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
	RDMA_CM_EVENT_ROUTE_ERROR = 3,
	RDMA_CM_EVENT_CONNECT_REQUEST = 4,
	RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
	RDMA_CM_EVENT_CONNECT_ERROR = 6,
	RDMA_CM_EVENT_UNREACHABLE = 7,
	RDMA_CM_EVENT_REJECTED = 8,
	RDMA_CM_EVENT_ESTABLISHED = 9,
	RDMA_CM_EVENT_DISCONNECTED = 10,
	RDMA_CM_EVENT_DEVICE_REMOVAL = 11,
	RDMA_CM_EVENT_ADDR_CHANGE = 14,
	RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
};

struct rdma_event_channel {
	int fd;
};

struct rdma_ib_addr {
	union ibv_gid sgid, dgid;
	uint16_t pkey;
};

struct rdma_addr {
	union {
		struct sockaddr src_addr;
		struct sockaddr_storage src_storage;
	};
	union {
		struct sockaddr dst_addr;
		struct sockaddr_storage dst_storage;
	};
	union {
		struct rdma_ib_addr ibaddr;
	} addr;
};

struct rdma_route {
	struct rdma_addr addr;
	void *path_rec;
	int num_paths;
};

struct rdma_cm_id {
	struct ibv_context *verbs;
	struct rdma_event_channel *channel;
	void *context;
	struct ibv_qp *qp;
	struct rdma_route route;
	enum rdma_port_space ps;
	uint8_t port_num;
};

struct rdma_conn_param {
	const void *private_data;
	uint8_t private_data_len, responder_resources, initiator_depth, flow_control;
	uint8_t retry_count, rnr_retry_count, srq;
	uint32_t qp_num;
};

struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num, qkey;
};

struct rdma_cm_event {
	struct rdma_cm_id *id, *listen_id;
	enum rdma_cm_event_type event;
	int status;
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
	} param;
};

static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id) { return &id->route.addr.src_addr; }
static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id) { return &id->route.addr.dst_addr; }

/* The addresses of the functions; set by rl_load(). */
struct rl_functions {
#define F(library, version, result, name, parameters, arguments) result(*name) parameters;
	RL_FUNCTIONS(F)
#undef F
};
extern struct rl_functions rl_functions;

#define F(library, version, result, name, parameters, arguments) \
	static inline result name parameters { return rl_functions.name arguments; }
RL_FUNCTIONS(F)
#undef F

#endif /* RDMALOOP_LINKED */

/* Opens the libraries and finds their functions. Returns 0, or -1 with the cause in why, of
 * up to size bytes. May be called again. */
int rl_load(char *why, size_t size);

#endif
