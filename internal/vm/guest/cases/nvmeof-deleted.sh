# class: full
# The controller is deleted while fio uses the disk. The target gets all its memory back,
# and the host can connect again.
delete_under_load() {
	$serve_target -size 64M
	nvme_connect $target 2
	start_fio fio --name=load --filename=/dev/nvme0n1 --rw=randrw --ioengine=libaio --direct=1 \
		--bsrange=4k-256k --iodepth=64 --time_based --runtime=60 --size=32M >/tmp/fio 2>&1
	nvme_disconnect
	wait $fio || true # its requests fail
	[ "$(grep -c 'queue ended' /tmp/server_output)" = 3 ]
	nvme_connect $target 2
	verify_writes --filename=/dev/nvme0n1 --size=1M --bs=4k --iodepth=16
	nvme_disconnect
	stop_target
}
on_both_devices delete_under_load
