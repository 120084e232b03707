# class: full
# Requests of 4 KiB to 1 MiB, one to 64 at a time. nvmeof-sizes-long has more variants.
verify_sizes() {
	$serve_target -size 64M -block 512 -capsule-data=false
	nvme_connect $target 1
	verify_writes --filename=/dev/nvme0n1 --size=256k --bs=4k --iodepth=1
	verify_writes --filename=/dev/nvme0n1 --size=2M --bs=4k --iodepth=64
	verify_writes --filename=/dev/nvme0n1 --size=16M --bsrange=128k-1M --iodepth=16
	nvme_disconnect
	stop_target
}
on_both_devices verify_sizes
