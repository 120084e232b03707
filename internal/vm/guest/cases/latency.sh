# class: measure
# Compares the latency of ib_send_lat with that of the echo example, each at both ends, in
# three rounds. For each it prints the smallest median one-way latency in microseconds.
measure_perftest() {
	run_both_ends ib_send_lat -R -F -d rxe0 -n 1000 -s 64 $flags >/tmp/report
	awk '$1 == 64 && $5 > 0 { print $5 }' /tmp/report >>/tmp/perftest_times
}
measure_echo() {
	serve /go/echo $rdmacore -mode $mode -listen $ADDR:7471 >/dev/null
	/go/echo $rdmacore -mode $mode -connect $ADDR:7471 -count 1000 -duration 0 -json >/tmp/report 2>/tmp/errors || cat /tmp/errors
	stop_server
	sed -n 's/.*"p50_ns": *\([0-9]*\).*/\1/p' /tmp/report | awk '{ print $1 / 2000 }' >>/tmp/echo_times
}
compare() {
	mode=$1 flags=${2-}
	rm -f /tmp/perftest_times /tmp/echo_times
	for round in 1 2 3; do
		measure_perftest
		measure_echo
	done
	echo "$(sort -n /tmp/perftest_times | head -n 1) $(sort -n /tmp/echo_times | head -n 1)" |
		awk -v mode=$mode '{ printf "latency, %s: ib_send_lat %.2f us, echo %.2f us, ratio %.2f\n", mode, $1, $2, $2 / $1 }'
}
compare busy
compare event -e
