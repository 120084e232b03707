# Nobody is waited for at the end. What the kernel says only once may be lost: a
# refusal, and the goodbye of a process that does not stay for the answer. So may the
# last acknowledgement of one of ours, and Soft-RoCE retries without end.
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
