# class: quick
serve $go rping $rdmacore -listen $ADDR:7174
rping_client -a $ADDR
wait_server
