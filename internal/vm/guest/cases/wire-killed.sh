# class: quick
# One of two connected processes is killed: the one with the kernel's device or the one
# with the soft device, each as the passive and as the active side. When the
# process with the kernel's device is killed, the kernel disconnects for it. When the
# process with the soft device is killed, no answers come from it any more. The requests of
# the other process then fail with retry errors.
side='/go/pairtest.test -test.run TestKilled'

killed() {
	status=0
	"$@" || status=$?
	[ $status = 137 ]
}

serve_in_peer $soft_device PAIR_ROLE=disconnected PAIR_LISTEN=$PEER:7471 $side
killed $kernel_device PAIR_ROLE=killed PAIR_CONNECT=$PEER:7471 $side
wait_server
serve $kernel_device PAIR_ROLE=killed PAIR_LISTEN=$ADDR:7471 $side
$in_peer $soft_device PAIR_ROLE=disconnected PAIR_CONNECT=$ADDR:7471 $side
killed wait_server
serve_in_peer $soft_device PAIR_ROLE=killed PAIR_LISTEN=$PEER:7471 $side
$kernel_device PAIR_ROLE=timeout PAIR_CONNECT=$PEER:7471 $side
killed wait_server
serve $kernel_device PAIR_ROLE=timeout PAIR_LISTEN=$ADDR:7471 $side
killed $in_peer $soft_device PAIR_ROLE=killed PAIR_CONNECT=$ADDR:7471 $side
wait_server
