# ib_send_lat and ib_send_bw at the kernel's end. The larger messages have several
# packets each.
for size in 64 4096; do
	send_both lat $size
	send_both bw $size
done
