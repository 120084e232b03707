# The device is removed and comes back, three times, below a process that goes on with it.
RDMA_TEST_ADDR=$ADDR RDMA_TEST_REMOVE=rxe0 RDMA_TEST_NETDEV=v0 \
	/go/rdmacore.test -test.run 'TestDeviceReturns$' -test.v
