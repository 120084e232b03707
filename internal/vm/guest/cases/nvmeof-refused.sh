# class: quick
# A host that is not on the list, and a host that asks for another subsystem, are refused.
refused() {
	dmesg -c >/dev/null
	if nvme_connect $target 1 "$@" 2>/dev/null; then return 1; fi
}
check_refusals() {
	$serve_target -size 64M -host nqn.2026-11.example:host
	refused hostnqn=nqn.2026-11.example:stranger
	dmesg | grep 'not allowed'
	asked=nqn.2026-11.example:other
	refused hostnqn=nqn.2026-11.example:host,nqn=$asked
	dmesg | grep "Connect Invalid Data Parameter.*$asked"
	nvme_connect $target 1 hostnqn=nqn.2026-11.example:host
	nvme_disconnect
	stop_target
}
on_both_devices check_refusals
