# class: long
# The soft device against rstream without options: see stream-sizes-to-soft-long.
serve rstream -T v
$in_peer $go rstream $soft -connect $ADDR:7471 -sizes four -verify
wait_server
