# class: quick
serve $go send_bw $rdmacore -listen $ADDR:18515 -count 200 -size 4096
ib_send_bw -R -F -d rxe0 -n 200 -s 4096 $ADDR
wait_server
