# class: quick
# ucmatose on the kernel's device: several connections, and one that is rejected.
serve_in_peer $go cmatose $soft -listen $PEER:7471 -conns 3
ucmatose -s $PEER -c 3
wait_server
serve ucmatose -b $ADDR -c 3
$in_peer $go cmatose $soft -connect $ADDR:7471 -conns 3
wait_server
serve_in_peer $go cmatose $soft -listen $PEER:7471 -conns 0 -refused 1
{ ucmatose -s $PEER || true; } | grep 'REJECTED, error: 28'
wait_server
# ucmatose -b counts a rejected connection as a failure and exits.
serve ucmatose -b $ADDR -c 2
$in_peer $go cmatose $soft -connect $ADDR:7471 -conns 2 -refused 1
