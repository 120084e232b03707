# class: full
# rstream never sends a message for which package stream has no receive, so that no RNR NAK
# is sent. Package stream has only 16 receives here. The two processes run in turn, while
# the devices go on. Package stream sends 16 bytes and then 34 times 120 bytes, which fill
# the ring of rstream, of 4096 bytes, to its end. Then rstream reads them, announces both
# halves of its ring with messages that need no credits, and uses its credits. How many
# receives a peer can need at most is in TestReceivesForAllMessages of package stream.
take_turns() {
	for turn in $(seq 14); do
		kill -STOP $1 && kill -CONT $2 || break
		usleep 200000
		kill -STOP $2 && kill -CONT $1 || break
		usleep 100000
	done 2>/dev/null
	kill -CONT $1 $2 2>/dev/null || true
}
# play ADDRESS runs rstream as the client of the server that was started last.
play() {
	rstream -s $1 -T v -S 120 -C 34 -I 2 -B 4096 &
	client=$!
	take_turns $client $server
	wait $client
	wait_server
}
counted=$(counters)
options='-verify -size 120 -count 34 -iterations 2 -in-flight 16'
for run in 1 2; do
	serve $go rstream $rdmacore -listen $ADDR:7471 $options
	play $ADDR
	serve_in_peer $go rstream $soft -listen $PEER:7471 $options
	play $PEER
done
no_rnr_nak
