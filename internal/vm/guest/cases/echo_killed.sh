# class: quick
# A server is killed while clients are connected. The client must exit with an error.
serve /go/echo $rdmacore -listen $ADDR:7471
timeout -s KILL 20 /go/echo $rdmacore -connect $ADDR:7471 -count 100 -duration 100s -json 2>/tmp/errors &
client=$!
until rdma resource show cm_id | grep -q 'state CONNECT'; do usleep 20000; done
sleep 2
kill -KILL $server
wait $client || status=$?
cat /tmp/errors
[ $status = 1 ]
