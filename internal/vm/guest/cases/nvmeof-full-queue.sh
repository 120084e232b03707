# The host fills its queue of 128 commands, while only one worker uses the disk. No message
# finds the target without a receive buffer.
fill_queue() {
	$serve_target -size 64M -workers 1
	nvme_connect $target 1
	counted=$(counters)
	verify_writes --filename=/dev/nvme0n1 --size=2M --bs=4k --iodepth=128
	if grown rcvd_rnr_err; then return 1; fi
	nvme_disconnect
	stop_target
}
on_both_devices fill_queue
