# class: measure
# Requests per second of 4 KiB, one and 32 at a time, beside the kernel's own target. Both
# targets use the same file.
configfs=/sys/kernel/config/nvmet
measure() {
	for depth in 1 32; do
		for rw in randread randwrite; do
			fio --name=speed --filename=/dev/nvme0n1 --rw=$rw --ioengine=libaio --direct=1 --bs=4k --size=32M \
				--iodepth=$depth --time_based --runtime=2 --output-format=terse >/tmp/fio
			# Fields 8 and 49 are reads and writes per second.
			echo "speed: $1 $rw depth $depth: $(awk -F ';' '{ print $8 + $49 }' /tmp/fio) per second"
		done
	done
}
kernel_target() {
	mkdir $configfs/subsystems/$subsystem
	echo 1 >$configfs/subsystems/$subsystem/attr_allow_any_host
	mkdir $configfs/subsystems/$subsystem/namespaces/1 $configfs/ports/1
	cd $configfs/subsystems/$subsystem/namespaces/1
	echo $disk >device_path
	echo 1 >buffered_io
	echo 1 >enable
	cd $configfs/ports/1
	echo rdma >addr_trtype
	echo ipv4 >addr_adrfam
	echo $ADDR >addr_traddr
	echo 4420 >addr_trsvcid
	ln -s $configfs/subsystems/$subsystem subsystems/disk
	cd /
}
remove_kernel_target() {
	rm $configfs/ports/1/subsystems/disk
	rmdir $configfs/ports/1 $configfs/subsystems/$subsystem/namespaces/1 $configfs/subsystems/$subsystem
}
measure_target() {
	"$@"
	nvme_connect $target 2
	measure $1
	nvme_disconnect
}
mkdir -p /sys/kernel/config
mount -t configfs config /sys/kernel/config
dd if=/dev/zero of=$disk bs=1M count=64 2>/dev/null
for turn in 1 2; do
	target=$ADDR
	measure_target kernel_target
	remove_kernel_target
	measure_target serve_disk_on_device
	stop_target
	measure_target serve_disk_in_peer
	stop_target
done
