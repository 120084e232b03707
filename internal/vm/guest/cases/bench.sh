# class: full
# Each workload of the benchmark on a real device.
/go/bench -quick -duration 20ms -peers rdmacore/device/event -json /tmp/rows 2>/tmp/errors >/tmp/table || {
	cat /tmp/errors
	exit 1
}
for workload in pingpong stream read write conns-idle conns-active connect idle; do
	grep -q "\"workload\": \"$workload\"" /tmp/rows
done
