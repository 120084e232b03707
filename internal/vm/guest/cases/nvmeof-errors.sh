# class: full
# Wrong commands get the right status, and the controller goes on.
expect() {
	status=$1
	shift
	"$@" >/tmp/answer 2>&1 || true
	grep -q "($status)" /tmp/answer || { echo "want $status: $*"; cat /tmp/answer; return 1; }
}
check_errors() {
	$serve_target -size 64M
	nvme_connect $target 1
	# Block 2^32, and the first one behind the end. The size is 16384 blocks.
	read='nvme io-passthru /dev/nvme0n1 --opcode=2 --namespace-id=1 --data-len=4096 --read'
	expect 0x4080 $read --cdw11=1
	expect 0x4080 $read --cdw10=16384
	# Data of two blocks for a command of one block, and the other way round.
	expect 0x400f $read --cdw12=1
	expect 0x400f nvme io-passthru /dev/nvme0n1 --opcode=2 --namespace-id=1 --data-len=8192 --read
	expect 0x4001 nvme io-passthru /dev/nvme0n1 --opcode=0x55 --namespace-id=1
	expect 0x4001 nvme admin-passthru /dev/nvme0 --opcode=0x77
	expect 0x400b nvme ns-descs /dev/nvme0 -n 5
	expect 0x4109 nvme get-log /dev/nvme0 --log-id=0x3f --log-len=512
	expect 0x4002 nvme get-feature /dev/nvme0 -f 0x55
	expect 0x4002 nvme admin-passthru /dev/nvme0 --opcode=6 --cdw10=0x55 --data-len=4096 --read
	verify_writes --filename=/dev/nvme0n1 --size=256k --bs=4k --iodepth=4
	grep -qx live /sys/class/nvme/nvme0/state
	nvme_disconnect
	stop_target
}
on_both_devices check_errors
