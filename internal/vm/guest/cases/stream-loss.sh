# class: full
# Package stream on the wire path, with 5 % loss in each direction. At the other end is
# package stream too, because the kernel's device waits long after some losses.
impair loss 5%
serve_in_peer $go rstream $soft -listen $NEAR:7471 -verify -size 300000 -count 10
$in_far $go rstream $soft -connect $NEAR:7471 -verify -size 300000 -count 10
wait_server
# Package stream and rstream, with 1 % loss. The servers are killed for the reasons in
# wire-loss.sh.
links change netem loss 1%
serve_in_peer $go rstream $soft -listen $PEER:7471 -verify -size 20000 -count 10
rstream_client $PEER -T v -S 20000 -C 10
grep '10 transfers of 20000 bytes' /tmp/server_output
kill $server || true
serve rstream -T v -S 20000 -C 10
$in_peer $go rstream $soft -connect $ADDR:7471 -verify -size 20000 -count 10
kill $server || true
