# What the cases have in common. A case fails when a command of it fails.
set -o pipefail

go=/go/interop
rdmacore='-provider rdmacore'

listeners() {
	rdma resource show cm_id | grep -c 'state LISTEN' || true
}

# serve COMMAND... starts a server and waits until it listens.
serve() {
	before=$(listeners)
	"$@" &
	server=$!
	until [ "$(listeners)" -gt "$before" ]; do
		kill -0 $server
		usleep 20000
	done
}

# served waits for the server to end. It must end well.
served() {
	wait $server
}

# stopped tells the server to end. It must end well.
stopped() {
	kill -INT $server
	wait $server
}

# echo_over MODE runs the echo example between two processes.
echo_over() {
	serve /go/echo $rdmacore -mode $1 -listen $ADDR:7471
	/go/echo $rdmacore -mode $1 -connect $ADDR:7471 -count 1000 -duration 500ms -conns 2 2>&1 | cat
	stopped
}

# with_itself PROGRAM... runs a program of perftest with itself. At least in release
# 6.06 the client crashes when it asks for its second connection before the server
# listens for that, and with -e it may wait for ever; so it has three chances.
with_itself() {
	for chance in 1 2 3; do
		serve "$@" >/dev/null
		if timeout -s KILL 20 "$@" $ADDR; then
			served
			return
		fi
		kill -KILL $server
		wait $server || true
	done
	return 1
}

# What follows is for the other end of the link, and for what is behind that, where
# programs of ours speak RoCEv2 without privileges.
nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
there="/usr/bin/ip netns exec peer $nobody"
behind="/usr/bin/ip netns exec far $nobody"
soft='-provider soft -path wire'

# serve_there COMMAND... starts a server there and waits until it says that it
# listens.
serve_there() {
	$there "$@" >/tmp/there 2>&1 &
	server=$!
	until grep -q '^listening' /tmp/there; do
		kill -0 $server
		usleep 20000
	done
}

# duet TOPIC lets two players of internal/duet play the pieces of a topic, both ways
# round: one has the kernel's device, the other ours.
theirs='env DUET_PROVIDER=rdmacore'
ours='env DUET_PROVIDER=soft DUET_PATH=wire'
duet() {
	play="/go/duet.test -test.run TestPlayer/$1"
	serve_there $ours DUET_LISTEN=$PEER:7471 $play
	$theirs DUET_CONNECT=$PEER:7471 $play -test.v
	stopped
	serve $theirs DUET_LISTEN=$ADDR:7471 $play
	$there $ours DUET_CONNECT=$ADDR:7471 $play -test.v
	stopped
}

# rping_both and send_both PROGRAM SIZE play their protocols with our device at the
# other end, both ways round.
rping_both() {
	serve_there $go rping $soft -listen $PEER:7174
	rping -c -a $PEER -C 10 -V
	served
	serve rping -s -a $ADDR -C 10 -V
	$there $go rping $soft -connect $ADDR:7174
	served
}
send_both() {
	serve_there $go send_$1 $soft -listen $PEER:18515 -count 200 -size $2
	ib_send_$1 -R -F -d rxe0 -n 200 -s $2 $PEER
	served
	serve ib_send_$1 -R -F -d rxe0 -n 200 -s $2
	$there $go send_$1 $soft -connect $ADDR:18515 -count 200 -size $2
	served
}

# impair HOW... makes the links worse, both ways: see tc-netem(8). init mends it after
# the case.
impair() {
	links replace netem "$@"
	counted=$(counters)
}

# links VERB HOW... changes what happens to packets at every end of the links.
links() {
	verb=$1
	shift
	/usr/bin/tc qdisc $verb dev v0 root "$@"
	/usr/bin/tc -n peer qdisc $verb dev v1 root "$@"
	/usr/bin/tc -n peer qdisc $verb dev v2 root "$@"
	/usr/bin/tc -n far qdisc $verb dev v3 root "$@"
}

# felt COUNTER... is true when counters of the kernel's device have grown since.
felt() {
	counters | grep -vxF "$counted" >/tmp/grown
	cat /tmp/grown
	for counter in "$@"; do grep -q "^$counter " /tmp/grown; done
}

counters() {
	cd /sys/class/infiniband/rxe0/ports/1/hw_counters
	for counter in *; do echo "$counter $(cat $counter)"; done
	cd - >/dev/null
}
