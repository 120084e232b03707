serve $go rping $rdmacore -listen $ADDR:7174
rping -c -a $ADDR -C 10 -V -v
wait_server
