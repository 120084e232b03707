//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// A sender waits at most partialFactor ACK timeouts before each retry (IBTA vol. 1,
	// 9.7.6.1.3); see partialLimit.
	partialFactor = 4
	// minPartialLimit is the shortest time limit, for senders with very short ACK
	// timeouts. Arbitrary.
	minPartialLimit = time.Second
	// maxPartialLimit is the longest time limit. It protects receive buffers from
	// clients with a very long ACK timeout. Arbitrary.
	maxPartialLimit = 10 * time.Minute
	// partialProgress is how many bytes have to arrive within the time limit: one packet
	// of the largest path MTU.
	partialProgress = 4096
)

// A partialMessage limits the time for the rest of a SEND. Without a limit, one peer
// could occupy all receive buffers of an SRQ.
type partialMessage struct {
	timer timer
	// number of messages so far that have more than one fragment
	messages uint64
	started  partialMark // part of the message that had arrived when the timer was started
}

// A partialMark says how much of a message has arrived at some time.
type partialMark struct {
	messages uint64 // number of the message, counted by partialMessage.messages
	offset   uint32 // number of bytes of the message that have arrived
}

// begin counts a message of several fragments.
func (p *partialMessage) begin() { p.messages++ }

// watch starts the timer. The parameter offset is how many bytes have arrived.
func (p *partialMessage) watch(offset uint32, limit time.Duration) {
	p.started = partialMark{p.messages, offset}
	p.timer.start(limit)
}

// stalled reports whether fewer than partialProgress bytes of the same message have
// arrived since the mark. The parameter offset is how many bytes have arrived.
func (p *partialMessage) stalled(since partialMark, offset uint32) bool {
	return since.messages == p.messages && offset-since.offset < partialProgress
}

// partialLimit returns the time in which partialProgress bytes of a message must arrive.
// Usually a sender stops its retries before this time has passed.
func (q *qp) partialLimit() time.Duration {
	timeout := verbs.AckTimeout(q.attr.Timeout)
	// The code 0 means an infinite ACK timeout.
	if q.attr.Timeout == 0 {
		timeout = maxPartialLimit
	}
	return min(max(partialFactor*timeout*time.Duration(q.attr.RetryCount+1), minPartialLimit), maxPartialLimit)
}

// onFragment is called for each fragment of a SEND except the last.
func (q *qp) onFragment(first bool) {
	if first {
		q.partial.begin()
	}
	if !q.partial.timer.Running() {
		q.partial.watch(q.responder.offset, q.partialLimit())
	}
}

// onPartialTimer fails the queue pair if the current message has stalled. Otherwise it
// starts the timer again.
func (q *qp) onPartialTimer() {
	if q.message != messageSend || !q.isServing() {
		return
	}
	started := q.partial.started
	q.path.consumeArrived() // This may change q.partial.started.
	switch {
	case q.message != messageSend || !q.isServing():
	case q.partial.stalled(started, q.responder.offset):
		q.shard.counts.Inc(counters.PartialExpired)
		q.path.abort(q.failReceive(verbs.StatusRespTimeoutErr, outcomeOperationError))
	default:
		q.partial.watch(q.responder.offset, q.partialLimit())
	}
}
