# ib_send_lat and ib_send_bw at the kernel's end. The larger messages have several
# packets each.
for program in lat bw; do
	for size in 64 4096; do
		serve_there $go send_$program $soft -listen $PEER:18515 -count 200 -size $size
		ib_send_$program -R -F -d rxe0 -n 200 -s $size $PEER
		served
		serve ib_send_$program -R -F -d rxe0 -n 200 -s $size
		$there $go send_$program $soft -connect $ADDR:18515 -count 200 -size $size
		served
	done
done
