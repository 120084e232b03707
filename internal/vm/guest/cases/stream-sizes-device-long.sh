# class: long
# rstream without options against the kernel's device: see stream-sizes-to-soft-long.
limit=420
serve $go rstream $rdmacore -listen $ADDR:7471 -sizes four -verify
rstream_client $ADDR -T v
wait_server
serve rstream -T v
$go rstream $rdmacore -connect $ADDR:7471 -sizes four -verify
wait_server
