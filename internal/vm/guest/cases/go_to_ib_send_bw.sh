# class: quick
serve ib_send_bw -R -F -d rxe0 -n 200 -s 4096
$go send_bw $rdmacore -connect $ADDR:18515 -count 200 -size 4096
wait_server
