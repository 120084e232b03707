# class: full
# The kernel's host has two controllers with two queues each, and fills all four queues
# with writes whose data is in the capsules. Meanwhile the target is stopped again and
# again, so that no command is answered. On its own device the kernel receives them all the
# same, and finds a receive buffer for each.
fill_queues() {
	$serve_target -size 64M
	nvme_connect $target 2
	nvme_connect $target 2 duplicate_connect
	until grep -qx live /sys/class/nvme/nvme1/state; do usleep 20000; done
	echo round-robin >/sys/class/nvme-subsystem/nvme-subsys0/iopolicy
	counted=$(counters)
	verify_writes --filename=/dev/nvme0n1 --size=4M --bs=4k --iodepth=256 --numjobs=2 --offset_increment=8M \
		--cpus_allowed=0,1 --cpus_allowed_policy=split &
	fio=$!
	while kill -0 $fio 2>/dev/null; do
		kill -STOP $server
		usleep 300000
		kill -CONT $server
		usleep 300000
	done
	wait $fio
	no_rnr_nak
	echo 1 >/sys/class/nvme/nvme1/delete_controller
	nvme_disconnect
	stop_target
}
on_both_devices fill_queues
