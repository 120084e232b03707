# class: quick
# The servers are killed instead of waited for, for two reasons. When a process exits, the
# kernel sends its DREQ once and does not repeat it. And if the last acknowledgement of a
# soft device that has exited is lost, Soft-RoCE retries without end.
# The scenario of rejects is left out: a listener takes a retransmitted REQ, which follows
# a lost REJ, for a new connection request.
impair loss 1%
pairtest 'connection/(private|no_listener|disconnects)'
pairtest traffic
serve_in_peer $go send_bw $soft -listen $PEER:18515 -count 200 -size 4096
ib_send_bw -R -F -d rxe0 -n 200 -s 4096 $PEER
grep '200 messages of 4096 bytes came' /tmp/server_output
kill $server || true
serve ib_send_bw -R -F -d rxe0 -n 200 -s 4096
$in_peer $go send_bw $soft -connect $ADDR:18515 -count 200 -size 4096
kill $server || true
serve_in_peer $go rping $soft -listen $PEER:7174
rping_client -a $PEER
kill $server || true
serve rping -s -a $ADDR -C 10 -V
$in_peer $go rping $soft -connect $ADDR:7174
grown rcvd_seq_err completer_retry_err
