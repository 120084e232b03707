# rping of rdmacm-utils at both ends.
serve rping -s -a $ADDR -C 10 -V
rping -c -a $ADDR -C 10 -V
wait_server
