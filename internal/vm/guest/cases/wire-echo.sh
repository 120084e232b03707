# The soft device at both ends, over a good link and over links with loss or reordering.
echo_behind() {
	serve_there /go/echo $soft -mode adaptive -listen $NEAR:7471 -size 3000
	$behind /go/echo $soft -mode adaptive -connect $NEAR:7471 -from $FAR -size 3000 -conns 2 -duration 500ms "$@" 2>&1 | cat
	stopped
}
echo_behind -count 1000
impair loss 1% duplicate 1%
echo_behind -count 200
impair delay 1ms reorder 95%
echo_behind -count 200
