# class: quick
# ib_send_lat and ib_send_bw on the kernel's device against the soft device. The larger
# messages need several packets each.
for size in 64 4096; do
	send_both lat $size
	send_both bw $size
done
