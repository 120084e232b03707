# Bytes per second of messages of 16 MiB beside WRITEs of 1 MiB.
reactor_pair TestReactorSpeed
serve_in_peer $soft_device PAIR_LISTEN=$NEAR:7472 $side
$in_far $soft_device PAIR_CONNECT=$NEAR:7472 $side
stop_server
