# class: full
# A client finds keys in the mapped file of a server by READs and by messages: on the
# Soft-RoCE device, and from it to the soft device. The kernel refuses to register a shared
# mapping that can not be written.
store='-file /tmp/store -fill 2000'
client="/go/kvread $rdmacore -fill 2000 -duration 200ms"
serve /go/kvread $rdmacore -listen $ADDR:7471 $store >/tmp/server_output 2>&1
[ $($client -connect $ADDR:7471 key-00001234) = $(printf %0100d 1234) ]
$client -connect $ADDR:7471
stop_server
cat /tmp/server_output
grep 'mapped for writing, because: .*bad address' /tmp/server_output
rm /tmp/store
serve_in_peer /go/kvread $soft -listen $PEER:7471 $store
$client -connect $PEER:7471
stop_server
if grep 'mapped for writing' /tmp/server_output; then exit 1; fi
