# class: quick
# A device is removed and added again, three times, while a process uses it.
tested env RDMA_TEST_ADDR=$ADDR RDMA_TEST_REMOVE=rxe0 RDMA_TEST_NETDEV=v0 \
	/go/rdmacore.test -test.run 'TestDeviceReturns$'
