# class: quick
# ucmatose of rdmacm-utils at both ends.
serve ucmatose -b $ADDR -c 3
ucmatose -s $ADDR -c 3
wait_server
