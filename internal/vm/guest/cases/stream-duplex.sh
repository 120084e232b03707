# class: full
# Streams with bytes in both directions at once, through buffers of 16 KiB: on the wire
# path at both ends, on the kernel's device at both ends, and with one of each.
export PAIR_BYTES=20000000
side='/go/pairtest.test -test.run TestStreamDuplex'
serve_in_peer $soft_device PAIR_LISTEN=$NEAR:7471 $side
tested $in_far $soft_device PAIR_CONNECT=$NEAR:7471 $side
wait_server
serve $kernel_device PAIR_LISTEN=$ADDR:7471 $side
tested $kernel_device PAIR_CONNECT=$ADDR:7471 $side
wait_server
serve_in_peer $soft_device PAIR_LISTEN=$PEER:7471 $side
tested $kernel_device PAIR_CONNECT=$PEER:7471 $side
wait_server
