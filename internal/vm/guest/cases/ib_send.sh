# class: quick
# ib_send_lat and ib_send_bw of perftest at both ends.
run_both_ends ib_send_lat -R -F -d rxe0 -n 200 -s 64
run_both_ends ib_send_bw -R -F -d rxe0 -n 200 -s 64
