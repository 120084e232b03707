# The conformance suite and the tests of connection management, on the rxe device.
RDMA_TEST_DEVICE=rxe0 RDMA_TEST_ADDR=$ADDR /go/rdmacore.test
