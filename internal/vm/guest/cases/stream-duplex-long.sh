# class: long
# 256 MiB in both directions at once on the wire path, through buffers of 16 KiB, and then
# 50 MB with 5 % loss in each direction. Outside the guest, make test-stream-loss sends 1 GiB.
side='/go/pairtest.test -test.run TestStreamDuplex'
export PAIR_BYTES=268435456
serve_in_peer $soft_device PAIR_LISTEN=$NEAR:7471 $side
tested $in_far $soft_device PAIR_CONNECT=$NEAR:7471 $side
wait_server
impair loss 5%
export PAIR_BYTES=50000000
serve_in_peer $soft_device PAIR_LISTEN=$NEAR:7471 $side
tested $in_far $soft_device PAIR_CONNECT=$NEAR:7471 $side
wait_server
