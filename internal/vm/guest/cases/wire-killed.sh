# A process is killed in the middle of a connection: theirs and ours, the one that
# listens and the one that connects. The kernel says goodbye for its own; that ours
# is gone shows when nothing is acknowledged.
play='/go/duet.test -test.run TestKilled'

killed() {
	status=0
	"$@" || status=$?
	[ $status = 137 ]
}

serve_there $ours DUET_FATE=mourns DUET_LISTEN=$PEER:7471 $play
killed $theirs DUET_FATE=dies DUET_CONNECT=$PEER:7471 $play
served
serve $theirs DUET_FATE=dies DUET_LISTEN=$ADDR:7471 $play
$there $ours DUET_FATE=mourns DUET_CONNECT=$ADDR:7471 $play
killed served
serve_there $ours DUET_FATE=dies DUET_LISTEN=$PEER:7471 $play
$theirs DUET_FATE=wonders DUET_CONNECT=$PEER:7471 $play
killed served
serve $theirs DUET_FATE=wonders DUET_LISTEN=$ADDR:7471 $play
killed $there $ours DUET_FATE=dies DUET_CONNECT=$ADDR:7471 $play
served
