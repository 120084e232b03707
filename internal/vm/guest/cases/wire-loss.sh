# Nobody is waited for at the end: the kernel says goodbye only once for a process that
# does not stay for the answer, and where the last acknowledgement of one of ours is
# lost, Soft-RoCE retries without end. Refusals are left out: the request that is
# repeated when one was lost is another to who listens.
impair loss 1%
duet 'connection/(private|nobody|hangs)'
duet traffic
serve_there $go send_bw $soft -listen $PEER:18515 -count 200 -size 4096
ib_send_bw -R -F -d rxe0 -n 200 -s 4096 $PEER
grep '200 messages of 4096 bytes came' /tmp/there
kill $server || true
serve ib_send_bw -R -F -d rxe0 -n 200 -s 4096
$there $go send_bw $soft -connect $ADDR:18515 -count 200 -size 4096
kill $server || true
serve_there $go rping $soft -listen $PEER:7174
rping -c -a $PEER -C 10 -V
kill $server || true
serve rping -s -a $ADDR -C 10 -V
$there $go rping $soft -connect $ADDR:7174
felt rcvd_seq_err completer_retry_err
