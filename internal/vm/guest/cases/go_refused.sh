# The last of our connections is refused by ucmatose, which takes that for a
# failure of its own.
serve ucmatose -b $ADDR -c 2
$go cmatose $rdmacore -connect $ADDR:7471 -conns 2 -refused 1
