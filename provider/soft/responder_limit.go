//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// partialFactor is used in the time limit for the rest of a message: the limit is
	// partialFactor ACK timeouts for each attempt of the sender. A sender may wait for
	// up to four times the ACK timeout before it tries again (IBTA vol. 1, 9.7.6.1.3).
	partialFactor = 4
	// minPartialLimit is the shortest time limit for the rest of a message of which a
	// part has arrived. Without this minimum, a sender with a very short ACK timeout
	// would lose its connection when its process does not run for a while. The number is
	// arbitrary.
	minPartialLimit = time.Second
	// maxPartialLimit is the longest time limit. A client chooses the ACK timeouts of
	// both ends, and could choose a very long one to keep receive buffers occupied. The
	// number is arbitrary. It is long enough for a sender whose ACK timeout has the code
	// 24: eight attempts of 69 s take 9 minutes. With a greater code, the connection may
	// end before a correct sender has made its last attempt.
	maxPartialLimit = 10 * time.Minute
	// partialProgress is how many bytes of a message have to arrive within the time
	// limit. It is the size of one packet with the largest path MTU.
	partialProgress = 4096
)

// A partialMessage limits the time between the first and the last fragment of a message.
// The first fragment takes a receive buffer. If many connections share the buffers
// (SRQ), one peer could occupy all of them for ever if there were no limit.
//
// The timer is not restarted for each fragment, because that would need a clock reading.
// It runs while a message is not complete. Each time the timer fires, onPartialTimer
// checks how much of the message has arrived since the timer was started.
type partialMessage struct {
	timer timer
	// number of messages of several fragments that have begun since the queue pair was
	// made
	messages uint64
	seen     uint64 // value of the field messages when the timer was last started
	// number of bytes of the message that had arrived when the timer was last started
	offset uint32
}

// begin is called at the first fragment of a message of several fragments, and counts
// the message.
func (p *partialMessage) begin() { p.messages++ }

// watch starts the timer. The parameter offset is the number of bytes of the current
// message that have arrived.
func (p *partialMessage) watch(offset uint32, limit time.Duration) {
	p.seen, p.offset = p.messages, offset
	p.timer.start(limit)
}

// stalled reports whether fewer than partialProgress bytes of the current message have
// arrived since the call of watch. It returns false if the current message has begun
// after that call. The parameter offset is the number of bytes of the current message
// that have arrived.
func (p *partialMessage) stalled(offset uint32) bool {
	return p.seen == p.messages && offset-p.offset < partialProgress
}

// partialLimit returns how long a message may make no progress. Unless the limit is
// maxPartialLimit, it is longer than the time for which a sender retries with the
// parameters of the connection.
func (q *qp) partialLimit() time.Duration {
	timeout := verbs.AckTimeout(q.attr.Timeout)
	// Without an ACK timeout the sender waits for an acknowledgement without end.
	if q.attr.Timeout == 0 {
		timeout = maxPartialLimit
	}
	return min(max(partialFactor*timeout*time.Duration(q.attr.RetryCount+1), minPartialLimit), maxPartialLimit)
}

// onFragment is called for each fragment of a SEND except the last. It starts the timer
// if the timer is not running.
func (q *qp) onFragment(first bool) {
	if first {
		q.partial.begin()
	}
	if !q.partial.timer.Running() {
		q.partial.watch(q.responder.offset, q.partialLimit())
	}
}

// onPartialTimer is called when the timer has fired. It moves the queue pair to the
// error state if the current message had begun before the timer was started, and fewer
// than partialProgress bytes of the message have arrived since the start. In this case
// the receive buffer completes with verbs.StatusRespTimeoutErr, and the peer gets a NAK.
// Otherwise the timer is started again.
func (q *qp) onPartialTimer() {
	switch {
	case q.message != messageSend || !q.isServing():
		return
	case q.partial.stalled(q.responder.offset) && !q.path.requestsPending():
		q.shard.counts.Inc(counters.PartialExpired)
		q.path.abort(q.failReceive(verbs.StatusRespTimeoutErr, outcomeOperationError))
	default:
		q.partial.watch(q.responder.offset, q.partialLimit())
	}
}
