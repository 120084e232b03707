# class: quick
# The last connection is rejected by ucmatose, which counts that as a failure and exits.
serve ucmatose -b $ADDR -c 2
$go cmatose $rdmacore -connect $ADDR:7471 -conns 2 -refused 1
