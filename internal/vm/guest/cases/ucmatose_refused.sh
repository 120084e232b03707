# class: quick
# The connection of ucmatose is rejected, and ucmatose must print that.
serve $go cmatose $rdmacore -listen $ADDR:7471 -conns 0 -refused 1
ucmatose -s $ADDR >/tmp/out || status=$?
cat /tmp/out
[ $status = 28 ]
grep -q 'REJECTED, error: 28' /tmp/out
wait_server
