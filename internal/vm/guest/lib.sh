# Functions and variables of all cases. A case fails when one of its commands fails.
set -o pipefail

go=/go/interop
rdmacore='-provider rdmacore'

listeners() {
	rdma resource show cm_id | grep -c 'state LISTEN' || true
}

connected() {
	rdma resource show cm_id | grep -c 'state CONNECT' || true
}

# serve COMMAND... starts a server and waits until it listens. The kernel sets the state
# LISTEN before the listener takes connection requests. So serve then stops the server for a
# moment: a thread stops only when it has left the system call that listens.
serve() {
	before=$(listeners)
	"$@" &
	server=$!
	until [ "$(listeners)" -gt "$before" ]; do
		kill -0 $server
		usleep 20000
	done
	kill -STOP $server
	while grep -hs '^State:' /proc/$server/task/*/status | grep -qv 'T (stopped)'; do
		usleep 20000
	done
	kill -CONT $server
}

# wait_server waits until the server has exited. Its exit status must be 0.
wait_server() {
	wait $server
}

# stop_server interrupts the server and waits until it has exited. Its exit status must be 0.
stop_server() {
	kill -INT $server
	wait $server
}

# echo_over MODE runs the echo example as a server process and a client process.
echo_over() {
	serve /go/echo $rdmacore -mode $1 -listen $ADDR:7471
	/go/echo $rdmacore -mode $1 -connect $ADDR:7471 -count 1000 -duration 500ms -conns 2 2>&1 | cat
	stop_server
}

# run_both_ends PROGRAM... runs a program of perftest as server and as client. In release
# 6.06 the client crashes when it requests its second connection before the server
# listens for it, and with -e the client may hang. So run_both_ends tries up to three times.
run_both_ends() {
	for attempt in 1 2 3; do
		serve "$@" >/dev/null
		if timeout -s KILL 20 "$@" $ADDR; then
			wait_server
			return
		fi
		kill -KILL $server
		wait $server || true
	done
	return 1
}

# Commands for the network namespaces peer and far, in which programs of this module send
# RoCEv2 packets without privileges. See init for the links.
unprivileged='setpriv --reuid 65534 --regid 65534 --clear-groups'
in_peer="/usr/bin/ip netns exec peer $unprivileged"
in_far="/usr/bin/ip netns exec far $unprivileged"
soft='-provider soft -path wire'

# serve_in_peer COMMAND... starts a server in the namespace peer and waits until it prints
# that it listens.
serve_in_peer() {
	$in_peer "$@" >/tmp/server_output 2>&1 &
	server=$!
	until_printed '^listening'
}

# until_printed PATTERN waits until the server has printed a line that matches.
until_printed() {
	until grep -qs "$1" /tmp/server_output; do
		kill -0 $server
		usleep 20000
	done
}

# tested COMMAND... runs a Go test program, of which a test must have passed and none may be
# skipped. Such a program succeeds also if -test.run matches no test.
tested() {
	"$@" -test.v | tee /tmp/tested && grep -q '^ *--- PASS' /tmp/tested && ! grep '^ *--- SKIP' /tmp/tested
}

# pairtest GROUP runs a group of the scenarios of internal/testutil/pairtest twice. In the
# first run the soft device is the passive side and the kernel's device the active side. In
# the second run it is the other way round. If the first run fails, the output of the
# passive side is printed too.
kernel_device='env PAIR_PROVIDER=rdmacore'
soft_device='env PAIR_PROVIDER=soft PAIR_PATH=wire'
pairtest() {
	side="/go/pairtest.test -test.run TestPeer/$1"
	serve_in_peer $soft_device PAIR_LISTEN=$PEER:7471 $side
	tested $kernel_device PAIR_CONNECT=$PEER:7471 $side || { cat /tmp/server_output; return 1; }
	stop_server
	serve $kernel_device PAIR_LISTEN=$ADDR:7471 $side
	tested $in_peer $soft_device PAIR_CONNECT=$ADDR:7471 $side
	stop_server
}

# reactor_pair TEST runs a test of package reactor in internal/testutil/pairtest three
# times: the soft device is the passive side, the active side, and neither.
reactor_pair() {
	side="/go/pairtest.test -test.run $1"
	serve_in_peer $soft_device PAIR_LISTEN=$PEER:7472 $side
	tested $kernel_device PAIR_CONNECT=$PEER:7472 $side || { cat /tmp/server_output; return 1; }
	stop_server
	serve $kernel_device PAIR_LISTEN=$ADDR:7472 $side
	tested $in_peer $soft_device PAIR_CONNECT=$ADDR:7472 $side
	stop_server
	serve $kernel_device PAIR_LISTEN=$ADDR:7473 $side
	tested $kernel_device PAIR_CONNECT=$ADDR:7473 $side
	stop_server
}

# rping_client ARGUMENTS... runs rping as a client, which sends 10 messages and compares the
# replies. Its thread for CM events may still read the event channel when its main thread
# has closed the channel. Then rping reports an error although all replies were right. So
# rping_client accepts this error after 10 replies.
rping_client() {
	status=0
	rping -c "$@" -C 10 -V -v >/tmp/rping_output 2>&1 || status=$?
	cat /tmp/rping_output
	[ "$(grep -c '^ping data: ' /tmp/rping_output)" = 10 ]
	[ $status = 0 ] || grep -q '^rdma_get_cm_event: Bad file descriptor$' /tmp/rping_output
}

# rping_both runs rping twice against the soft device, which is first the server and then
# the client. send_both PROGRAM SIZE does the same with a program of perftest.
rping_both() {
	serve_in_peer $go rping $soft -listen $PEER:7174
	rping_client -a $PEER
	wait_server
	serve rping -s -a $ADDR -C 10 -V
	$in_peer $go rping $soft -connect $ADDR:7174
	wait_server
}
send_both() {
	serve_in_peer $go send_$1 $soft -listen $PEER:18515 -count 200 -size $2
	ib_send_$1 -R -F -d rxe0 -n 200 -s $2 $PEER
	wait_server
	serve ib_send_$1 -R -F -d rxe0 -n 200 -s $2
	$in_peer $go send_$1 $soft -connect $ADDR:18515 -count 200 -size $2
	wait_server
}

# rstream_both GO_OPTIONS [OPTION]... runs rstream with the options against rstream of
# internal/vm/interop with GO_OPTIONS, four times: that program uses the soft device and the
# kernel's device, and is the server and the client.
#
# No case has the options -T s and -T f of rstream. Both make it use TCP sockets and no
# rsockets. -T f makes the server fork, which rsockets do not survive. With the library
# librspreload between rstream and TCP, the two ends would first connect by TCP, and open an
# rsocket only after the fork, which package stream does not do.
rstream_both() {
	rstream_soft "$@"
	rstream_device "$@"
}
rstream_soft() {
	ours=$1
	shift
	serve_in_peer $go rstream $soft -listen $PEER:${port:-7471} $ours
	rstream_client $PEER "$@" || { cat /tmp/server_output; return 1; }
	wait_server
	cat /tmp/server_output
	serve rstream "$@"
	$in_peer $go rstream $soft -connect $ADDR:${port:-7471} $ours
	wait_server
}
rstream_device() {
	ours=$1
	shift
	serve $go rstream $rdmacore -listen $ADDR:${port:-7471} $ours
	rstream_client $ADDR "$@"
	wait_server
	serve rstream "$@"
	$go rstream $rdmacore -connect $ADDR:${port:-7471} $ours
	wait_server
}

# rstream_client ADDRESS [OPTION]... runs rstream as a client. After an early end of the
# stream it would run for ever. Its exit status does not tell a failed test without the
# options -I, -C and -S.
rstream_client() {
	server_address=$1
	shift
	timeout -s KILL ${limit:-60} rstream -s $server_address "$@" >/tmp/rstream_output 2>&1 || { cat /tmp/rstream_output; return 1; }
	cat /tmp/rstream_output
	if grep -E 'failed|rsend|rrecv|rpoll' /tmp/rstream_output; then return 1; fi
}

# impair OPTION... adds a netem queue with these options at every end of the links: see
# tc-netem(8). init removes it after the case.
impair() {
	links replace netem "$@"
	counted=$(counters)
}

# links VERB OPTION... calls tc qdisc VERB at every end of the links.
links() {
	verb=$1
	shift
	/usr/bin/tc qdisc $verb dev v0 root "$@"
	/usr/bin/tc -n peer qdisc $verb dev v1 root "$@"
	/usr/bin/tc -n peer qdisc $verb dev v2 root "$@"
	/usr/bin/tc -n far qdisc $verb dev v3 root "$@"
}

# grown COUNTER... succeeds if every COUNTER of the kernel's device has grown since impair, or
# since the variable counted was set to the output of counters.
grown() {
	counters | grep -vxF "$counted" >/tmp/grown
	cat /tmp/grown
	for counter in "$@"; do grep -q "^$counter " /tmp/grown; done
}

# no_rnr_nak succeeds if the kernel's device has got and sent no RNR NAK since the variable
# counted was set.
no_rnr_nak() {
	if grown rcvd_rnr_err || grown send_rnr_err; then return 1; fi
}

counters() {
	cd /sys/class/infiniband/rxe0/ports/1/hw_counters
	for counter in *; do echo "$counter $(cat $counter)"; done
	cd - >/dev/null
}

# The target of examples/nvmeof with its disk in a file. serve_disk_in_peer runs it with
# the soft device in the namespace peer, and serve_disk_on_device with the kernel's device.
# Both take additional options. nsenter does not copy the mounts, as ip netns exec does,
# so a file system can be unmounted while the target runs.
disk=/tmp/disk
subsystem=nqn.2026-11.example:disk
serve_disk_in_peer() {
	target=$PEER
	serve_disk nsenter --net=/run/netns/peer /go/nvmeof $soft -listen $PEER:4420 "$@"
}
serve_disk_on_device() {
	target=$ADDR
	serve_disk /go/nvmeof $rdmacore -listen $ADDR:4420 "$@"
}
serve_disk() {
	rm -f /tmp/server_output
	"$@" -nqn $subsystem -file $disk >/tmp/server_output 2>&1 &
	server=$!
	until_printed '^serving'
}

# on_both_devices COMMAND... runs the command twice, with a new disk: serve_target is
# first serve_disk_in_peer and then serve_disk_on_device.
on_both_devices() {
	for serve_target in serve_disk_in_peer serve_disk_on_device; do
		echo "---- $serve_target"
		rm -f $disk
		"$@"
	done
}

# stop_target stops the target, which must have got back all its memory.
stop_target() {
	stop_server
	if grep 'level=ERROR' /tmp/server_output; then return 1; fi
}

# nvme_connect ADDRESS QUEUES [OPTION]... connects the kernel's host to the target, and
# waits for its disk. An OPTION is name=value. nvme_disconnect removes the controller.
nvme_connect() {
	options="transport=rdma,traddr=$1,trsvcid=4420,nqn=$subsystem,nr_io_queues=$2,reconnect_delay=1"
	shift 2
	for option in "$@"; do options="$options,$option"; done
	echo "$options" >/dev/nvme-fabrics || return 1
	until [ -b /dev/nvme0n1 ]; do usleep 20000; done
}
nvme_disconnect() {
	echo 1 >/sys/class/nvme/nvme0/delete_controller
	while [ -e /sys/class/nvme/nvme0 ]; do usleep 20000; done
}

# load_host [OPTION]... loads the module of the kernel's host again, with options.
load_host() {
	rmmod nvme_rdma
	insmod /modules/nvme_rdma "$@"
}

# nvme_end removes what a failed case has left.
nvme_end() {
	for controller in /sys/class/nvme/nvme*; do
		[ -e $controller ] || continue
		umount /mnt
		echo 1 >$controller/delete_controller
	done
}

# make_file_system makes a file system on the kernel's disk, and mounts it at /mnt with the
# given options of mount. check_structure unmounts it and checks its structure.
make_file_system() {
	/usr/bin/mke2fs -q -F -t ext4 /dev/nvme0n1
	mkdir -p /mnt
	mount -t ext4 "$@" /dev/nvme0n1 /mnt
}
check_structure() {
	umount /mnt
	/usr/bin/e2fsck -fn /dev/nvme0n1 >/tmp/e2fsck || { cat /tmp/e2fsck; return 1; }
}

# check_file_system stores and verifies files in a new file system.
check_file_system() {
	make_file_system
	cp -r /cases /usr/bin /mnt
	diff -r /usr/bin /mnt/bin
	verify_writes --directory=/mnt --size=16M --bsrange=4k-1M --iodepth=8
	check_structure
}

# verify_writes OPTION... writes with fio at random places, and reads everything back.
verify_writes() {
	fio --name=verify --rw=randwrite --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 \
		--output-format=terse "$@" | cut -d ';' -f 1-8
}

# start_fio COMMAND... runs the command in the background, and waits until it has written
# 1 MiB to the kernel's disk. The field 7 counts sectors of 512 bytes.
start_fio() {
	written=$(sectors_written)
	"$@" &
	fio=$!
	until [ $(sectors_written) -gt $((written + 2048)) ]; do
		kill -0 $fio
		usleep 10000
	done
}
sectors_written() {
	awk '{ print $7 }' /sys/class/nvme/nvme0/nvme*n1/stat
}

# survive SIGNAL SECONDS ends the target with a signal while fio writes to a file system,
# and starts the target again after some seconds. The file system must not notice this.
survive() {
	$serve_target -size 128M
	nvme_connect $target 2 keep_alive_tmo=2
	make_file_system
	start_fio verify_writes --directory=/mnt --size=16M --bsrange=4k-64k --iodepth=16
	kill -$1 $server
	wait $server || [ $1 = KILL ]
	sleep $2
	$serve_target
	wait $fio
	check_structure
	check_no_errors
	nvme_disconnect
	stop_target
}

# check_no_errors checks that the kernel has reported no failed request.
check_no_errors() {
	if dmesg | grep -E 'I/O error|EXT4-fs (error|warning)'; then return 1; fi
}
