# class: quick
# rping of rdmacm-utils at both ends.
serve rping -s -a $ADDR -C 10 -V
rping_client -a $ADDR
wait_server
