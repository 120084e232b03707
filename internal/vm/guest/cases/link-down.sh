# class: full
# The link of the kernel's device goes down while a client uses it. The client gets an
# error. Soft-RoCE of Linux 6.1 opens no connections any more after it had a CM message to
# send while the link was down, so the device is removed and added again before the next
# client, and the server too, for which the old connection would still exist.
serve_in_peer /go/echo $soft -listen $PEER:7471
timeout -s KILL 60 /go/echo $rdmacore -connect $PEER:7471 -count 100 -duration 100s >/tmp/echo 2>&1 &
client=$!
until [ "$(connected)" -gt 0 ]; do usleep 20000; done
/usr/bin/ip link set v0 down
status=0
wait $client || status=$?
/usr/bin/ip link set v0 up
rdma link delete rxe0
rdma link add rxe0 type rxe netdev v0
cat /tmp/echo
[ $status = 1 ]
until rdma link show | grep -q 'state ACTIVE'; do usleep 20000; done
kill -KILL $server
serve_in_peer /go/echo $soft -listen $PEER:7471
/go/echo $rdmacore -connect $PEER:7471 -count 100 -duration 0
stop_server
