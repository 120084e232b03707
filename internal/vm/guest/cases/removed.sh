# class: quick
# The device is removed while a server listens. The server must exit and print the reason.
serve /go/echo $rdmacore -listen $ADDR:7471 2>/tmp/errors
rdma link delete rxe0
status=0
wait_server || status=$?
rdma link add rxe0 type rxe netdev v0
cat /tmp/errors
[ $status = 1 ]
grep 'device removed' /tmp/errors
