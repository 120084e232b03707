# class: quick
# The conformance suite and the tests of connection management, on the rxe device.
RDMA_TEST_DEVICE=rxe0 RDMA_TEST_ADDR=$ADDR /go/rdmacore.test -test.v >/tmp/tested 2>&1 || { cat /tmp/tested; exit 1; }
grep '^--- ' /tmp/tested
grep -q '^--- PASS: TestConformance' /tmp/tested
