# class: full
# A write waits in the target while the kernel's host resets its controller and connects
# again. The host sends the write again, and then a newer one to the same place. The old
# write must not be stored after the newer one: see TestDelayedWrite.
delayed_write() {
	for letter in a b; do head -c 4096 /dev/zero | tr '\0' $letter >/tmp/$letter; done
	place='/dev/nvme0n1 bs=4096 count=1'
	rm -f /tmp/server_output
	"$@" /go/nvmeof-target.test -test.run TestDelayedWrite -test.v >/tmp/server_output 2>&1 &
	server=$!
	until_printed '^serving'
	nvme_connect $address 1
	dd if=/tmp/a of=$place seek=256 oflag=direct &
	writer=$!
	until_printed '^a write waits'
	echo 1 >/sys/class/nvme/nvme0/reset_controller
	wait $writer
	dd if=/tmp/b of=$place seek=256 oflag=direct
	dd if=$place skip=256 iflag=direct | cmp - /tmp/b
	check_no_errors
	nvme_disconnect
	stop_server
	grep -q '^--- PASS: TestDelayedWrite' /tmp/server_output
}
address=$PEER
delayed_write nsenter --net=/run/netns/peer env NVMEOF_LISTEN=$PEER:4420 NVMEOF_PROVIDER=soft
address=$ADDR
delayed_write env NVMEOF_LISTEN=$ADDR:4420 NVMEOF_PROVIDER=rdmacore
