# The device goes away under a server that listens, which ends and says why.
serve /go/echo $rdmacore -listen $ADDR:7471 2>/tmp/errors
rdma link delete rxe0
status=0
served || status=$?
rdma link add rxe0 type rxe netdev v0
cat /tmp/errors
[ $status = 1 ]
grep 'device removed' /tmp/errors
