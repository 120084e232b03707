# class: quick
serve $go cmatose $rdmacore -listen $ADDR:7471 -conns 3
ucmatose -s $ADDR -c 3
wait_server
