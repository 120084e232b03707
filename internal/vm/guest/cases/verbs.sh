# The conformance suite, and connection management, over rxe.
RDMA_TEST_DEVICE=rxe0 RDMA_TEST_ADDR=$ADDR /go/rdmacore.test
