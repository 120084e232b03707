# class: long
# Requests of 4 KiB to 1 MiB, one to 64 at a time, on one and two queues, for blocks of 512
# and 4096 bytes, with small writes in the capsule and in the host's memory.
verify_sizes() {
	verify_variant 1 -block 512
	verify_variant 2 -block 4096
	verify_variant 2 -block 512 -capsule-data=false
	verify_variant 1 -block 4096 -capsule-data=false
}
verify_variant() {
	queues=$1
	shift
	echo "---- $queues queues, $*"
	$serve_target -size 64M "$@"
	nvme_connect $target $queues
	verify_writes --filename=/dev/nvme0n1 --size=512k --bs=4k --iodepth=1
	verify_writes --filename=/dev/nvme0n1 --size=2M --bs=4k --iodepth=64
	verify_writes --filename=/dev/nvme0n1 --size=8M --bs=128k --iodepth=8
	verify_writes --filename=/dev/nvme0n1 --size=16M --bs=1M --iodepth=16
	nvme_disconnect
	stop_target
}
on_both_devices verify_sizes
