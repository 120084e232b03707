# rping at the kernel's end, our device at the other.
serve_there $go rping $soft -listen $PEER:7174
rping -c -a $PEER -C 10 -V
served
serve rping -s -a $ADDR -C 10 -V
$there $go rping $soft -connect $ADDR:7174
served
