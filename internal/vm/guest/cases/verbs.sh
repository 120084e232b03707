# class: quick
# The conformance suite as a user runs it, and the other tests of the provider, on the rxe
# device, without those of the pages, which are not here. The findings of doctor about the device, and
# a ping over it.
/go/rdmaloop selftest rxe0 >/tmp/report 2>/tmp/progress || { cat /tmp/report; exit 1; }
grep -E '^(rdmaloop|library|device|passed)' /tmp/report
grep -qE '^passed [0-9]{3}, failed 0, ' /tmp/report
grep -q '^library libibverbs.so.1' /tmp/report
RDMA_TEST_DEVICE=rxe0 RDMA_TEST_ADDR=$ADDR /go/rdmacore.test -test.v -test.skip 'TestConformance|TestCall|TestFromLibrdmacm' >/tmp/tested 2>&1 || { cat /tmp/tested; exit 1; }
grep '^--- ' /tmp/tested
grep -q '^--- PASS: TestNamedDevice' /tmp/tested
/go/rdmaloop doctor -addr $ADDR >/tmp/doctor || true # Other findings depend on the machine.
grep -q 'RDMA devices .*rxe0 port 1 4: ACTIVE' /tmp/doctor
grep -q "address .*$ADDR belongs to rxe0" /tmp/doctor
serve /go/rdmaloop ping -listen $ADDR:7471
/go/rdmaloop ping $ADDR -count 100 | tee /tmp/pinged
grep -q 'device rxe0' /tmp/pinged
stop_server
