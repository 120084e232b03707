//go:build rdmacore && cgo && linux

/* Functions that the provider looks up, and that no step calls. */

#include <stdlib.h>

#define UNUSED(name) \
	void name(void); \
	void name(void) { abort(); }

UNUSED(ibv_create_ah)
UNUSED(ibv_destroy_ah)
UNUSED(rdma_init_qp_attr)
UNUSED(rdma_reject)
UNUSED(rdma_establish)
UNUSED(rdma_notify)
