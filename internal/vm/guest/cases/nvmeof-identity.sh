# class: full
# What the host sees of the controller and its disk, before and after a restart of the
# target.
show_identity() {
	cd /sys/class/nvme/nvme0
	grep . transport subsysnqn model serial firmware_rev queue_count sqsize kato
	cd /sys/block/nvme0n1
	grep . size uuid nguid wwid queue/logical_block_size queue/max_hw_sectors_kb queue/write_cache queue/fua \
		queue/discard_max_bytes queue/write_zeroes_max_bytes
	cd /
	nvme list
	nvme id-ctrl /dev/nvme0 | grep -v '^cntlid'
	nvme id-ns /dev/nvme0n1
	nvme ns-descs /dev/nvme0n1
	nvme smart-log /dev/nvme0
	nvme effects-log /dev/nvme0
}
compare_identity() {
	$serve_target -size 64M
	nvme_connect $target 2
	show_identity >/tmp/before
	for line in transport:rdma subsysnqn:$subsystem queue_count:3 sqsize:127 size:131072 \
		queue/logical_block_size:4096 queue/max_hw_sectors_kb:1024 'queue/write_cache:write back' queue/fua:1; do
		grep -qxF "$line" /tmp/before
	done
	old=$(cat /sys/class/nvme/nvme0/cntlid)
	stop_target
	$serve_target
	until [ $(cat /sys/class/nvme/nvme0/cntlid) != $old ] && grep -qx live /sys/class/nvme/nvme0/state; do
		usleep 20000
	done
	show_identity >/tmp/after
	diff /tmp/before /tmp/after
	nvme_disconnect
	stop_target
}
on_both_devices compare_identity
