//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// partialTries is how many times the time is allowed that a sender's retries take:
	// it may wait for up to four times the ACK timeout (IBTA vol. 1, 9.7.6.1.3).
	partialTries = 4
	// leastPartialLimit leaves a sender time that has agreed on a very short timeout
	// and is not scheduled for a while; arbitrary.
	leastPartialLimit = time.Second
	// mostPartialLimit bounds it, since a client names the timeout of both ends;
	// arbitrary. The retries of a sender with a timeout code above 24 (69 s, eight
	// times) can take longer.
	mostPartialLimit = 10 * time.Minute
	// partialProgress is how many bytes have to come in that time: those of one packet
	// with the largest path MTU.
	partialProgress = 4096
)

// A partialMessage watches a message of several fragments that has taken a receive
// buffer, until its last fragment comes. The buffer may be one that many connections
// share. Without a limit a peer could keep it for ever.
//
// The timer is not set anew for each fragment: it is left running while there are
// such messages, and compares what there is with what it has found last.
type partialMessage struct {
	timer  timer
	begun  uint64 // messages of several fragments, since the queue pair was made
	seen   uint64 // begun, when the timer looked last
	offset uint32 // bytes of the message that had come then
}

// partialLimit is how long a message may make no progress. It is longer than the
// sender goes on trying, by the terms of the connection.
func (q *qp) partialLimit() time.Duration {
	timeout := verbs.AckTimeout(q.attr.Timeout)
	if q.attr.Timeout == 0 { // none: the sender waits for an answer without end
		timeout = mostPartialLimit
	}
	return min(max(partialTries*timeout*time.Duration(q.attr.RetryCount+1), leastPartialLimit), mostPartialLimit)
}

// fragmentTaken is called for each fragment of a SEND but the last.
func (q *qp) fragmentTaken(first bool) {
	p := &q.partial
	if first {
		p.begun++
	}
	if !p.timer.running() {
		p.seen, p.offset = p.begun, q.responder.offset
		p.timer.start(q.partialLimit())
	}
}

// onPartialTimer ends the queue pair if the message at hand is still the one that it
// was a limit ago, and hardly anything has come since. The buffer completes with
// verbs.StatusRespTimeoutErr, and the peer gets a NAK.
func (q *qp) onPartialTimer() {
	p := &q.partial
	switch {
	case !q.has || !q.serves():
		return
	case p.seen == p.begun && q.responder.offset-p.offset < partialProgress && !q.path.requestsWait():
		q.shard.counts.inc(partialExpired)
		q.path.abort(q.refuse(verbs.StatusRespTimeoutErr, answerOperationError))
		return
	}
	p.seen, p.offset = p.begun, q.responder.offset
	p.timer.start(q.partialLimit())
}
