# class: full
# All packets between the kernel's device and the soft device are lost. A client on the
# kernel's device survives that for half a second, and gets an error when it does not end.
# wire-killed has the same for a client on the soft device.
serve_in_peer /go/echo $soft -listen $PEER:7471
/go/echo $rdmacore -connect $PEER:7471 -count 3000 -duration 0 >/tmp/echo 2>&1 &
client=$!
until [ "$(connected)" -gt 0 ]; do usleep 20000; done
impair loss 100%
usleep 500000
links del
wait $client || { cat /tmp/echo; exit 1; }
grown completer_retry_err
timeout -s KILL 100 /go/echo $rdmacore -connect $PEER:7471 -count 100 -duration 100s >/tmp/echo 2>&1 &
client=$!
until [ "$(connected)" -gt 0 ]; do usleep 20000; done
links replace netem loss 100%
status=0
wait $client || status=$?
links del
cat /tmp/echo
[ $status = 1 ]
stop_server
