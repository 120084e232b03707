# Memory windows, SEND with invalidate, and their keys at the other end.
pairtest window

# The same with package reactor.
side='/go/pairtest.test -test.run TestReactorWindows -test.v'
serve_in_peer $soft_device PAIR_LISTEN=$PEER:7472 $side
$kernel_device PAIR_CONNECT=$PEER:7472 $side
wait_server
serve $kernel_device PAIR_LISTEN=$ADDR:7472 $side
$in_peer $soft_device PAIR_CONNECT=$ADDR:7472 $side
wait_server
serve $kernel_device PAIR_LISTEN=$ADDR:7473 $side
$kernel_device PAIR_CONNECT=$ADDR:7473 $side
wait_server
