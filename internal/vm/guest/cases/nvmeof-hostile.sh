# class: full
# fio writes and verifies on the kernel's disk while another host attacks the target with
# wrong commands: among them the Connect command of an I/O queue that names the kernel's
# controller. The attacker uses the device that the target does not use. The kernel's host
# notices nothing. It registers no memory for its requests: see README.md of
# examples/nvmeof about busy hosts.
verify_until_attacked() {
	until [ -e /tmp/attacked ]; do
		verify_writes --filename=/dev/nvme0n1 --size=2M --bs=4k --iodepth=8 || return 1
	done
}
attack_beside_fio() {
	$serve_target -size 8M -block 512
	nvme_connect $target 1
	rm -f /tmp/attacked
	start_fio verify_until_attacked
	attack='/go/nvmeof-target.test -test.run TestAttackBesideKernel'
	case $serve_target in
	*in_peer) from="env NVMEOF_PROVIDER=rdmacore NVMEOF_FROM=$ADDR" ;;
	*) from="$in_peer env NVMEOF_PROVIDER=soft NVMEOF_FROM=$PEER" ;;
	esac
	tested $from NVMEOF_ATTACK=$target:4420 NVMEOF_CONTROLLER=$(cat /sys/class/nvme/nvme0/cntlid) $attack
	touch /tmp/attacked
	wait $fio
	check_no_errors
	if dmesg | grep -i reconnect; then return 1; fi
	nvme_disconnect
	stop_target
}
load_host register_always=N
on_both_devices attack_beside_fio
load_host
