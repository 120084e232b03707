# class: quick
# nvme discover lists every field of the target, and only subsystems that the host may use.
host=nqn.2026-11.example:host
discover() {
	nvme discover -t rdma -a $target -s 4420 --hostnqn $1 --hostid 12345678-0000-4000-8000-000000000001
}
check_discovery() {
	$serve_target -size 64M -host $host
	discover $host >/tmp/discovered
	cat /tmp/discovered
	tr -s ' ' </tmp/discovered | sed -n '/^=====/,$p' >/tmp/fields
	diff /tmp/fields - <<-end
		=====Discovery Log Entry 0======
		trtype: rdma
		adrfam: ipv4
		subtype: nvme subsystem
		treq: not specified
		portid: 1
		trsvcid: 4420
		subnqn: $subsystem
		traddr: $target
		eflags: none
		rdma_prtype: not specified
		rdma_qptype: connected
		rdma_cms: rdma-cm
		rdma_pkey: 0x0000
	end
	discover nqn.2026-11.example:stranger >/tmp/discovered || true
	if grep $subsystem /tmp/discovered; then return 1; fi
	stop_target
}
on_both_devices check_discovery
