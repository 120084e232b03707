# class: quick
serve ib_send_lat -R -F -d rxe0 -n 200 -s 2
$go send_lat $rdmacore -connect $ADDR:18515 -count 200 -size 2
wait_server
