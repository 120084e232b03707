# class: quick
serve $go send_lat $rdmacore -listen $ADDR:18515 -count 200 -size 2
ib_send_lat -R -F -d rxe0 -n 200 -s 2 $ADDR
wait_server
