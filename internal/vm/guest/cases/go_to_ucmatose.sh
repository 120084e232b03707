# class: quick
serve ucmatose -b $ADDR -c 3
$go cmatose $rdmacore -connect $ADDR:7471 -conns 3
wait_server
