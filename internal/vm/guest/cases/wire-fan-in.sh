# class: full
# A hundred connections from one kernel, each with a hundred messages of 4 KiB each way.
# The kernel sends on all connections at once, more than a socket holds by default.
[ $(cat /proc/sys/net/core/rmem_max) = 212992 ] # the default
fan_in() {
	ucmatose -s $PEER -c 100 -C 100 -S 4096 >/tmp/client_output || { cat /tmp/client_output; exit 1; }
	wait_server
	cat /tmp/server_output
}
serve_in_peer $go cmatose $soft -listen $PEER:7471 -conns 100 -count 100 -size 4096
fan_in
# The same test with the larger buffers of a process with CAP_NET_ADMIN.
in_peer="/usr/bin/ip netns exec peer"
serve_in_peer $go cmatose $soft -listen $PEER:7471 -conns 100 -count 100 -size 4096
fan_in
