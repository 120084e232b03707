# class: full
# The soft device at both ends, over a good link and over links with loss or reordering.
echo_from_far() {
	serve_in_peer /go/echo $soft -mode adaptive -listen $NEAR:7471 -size 3000
	$in_far /go/echo $soft -mode adaptive -connect $NEAR:7471 -from $FAR -size 3000 -conns 2 -duration 500ms "$@" 2>&1 | cat
	stop_server
}
echo_from_far -count 1000
impair loss 1% duplicate 1%
echo_from_far -count 200
impair delay 1ms reorder 95%
echo_from_far -count 200
