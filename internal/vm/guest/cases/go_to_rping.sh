# class: quick
serve rping -s -a $ADDR -C 10 -V
$go rping $rdmacore -connect $ADDR:7174
wait_server
