# class: long
# A target has the same size after 50 connections and disconnections as after 10.
connect_often() {
	# Go collects garbage often, so that the memory in use is close to what is needed.
	export GOGC=5
	$serve_target -size 64M
	for number in $(seq 50); do
		nvme_connect $target 1
		nvme_disconnect
		case $number in 10 | 50) resources >/tmp/resources$number ;; esac
	done
	cat /tmp/resources10
	diff /tmp/resources10 /tmp/resources50
	stop_target
	first=
}
# resources prints the number of open files of the target, and checks its memory.
resources() {
	ls /proc/$server/fd | wc -l
	memory=$(awk '/^VmRSS/ { print $2 }' /proc/$server/status)
	echo "KiB after $number connections: $memory" >&2
	[ $number = 10 ] || [ $memory -lt $((first + 4096)) ]
	first=$memory
}
on_both_devices connect_often
