//go:build linux

package qp

import (
	"slices"
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
	// maxPartialLimit is the longest time limit, whatever ACK timeout the peer has chosen.
	// It is longer than all retries of the usual senders: with a retry count of 7, rxe
	// stops after 17.2 s, and this package after 10.7 s by default.
	maxPartialLimit = 20 * time.Second
	// partialProgress is how many bytes have to arrive within the time limit: one packet
	// of the largest path MTU.
	partialProgress = 4096
	// rnrCodeStep is how much each refusal in a row adds to the timer code of the RNR NAK.
	// Four codes mean about four times the time. A peer with a small RNR retry count then
	// waits long enough, until other messages of its source are complete.
	rnrCodeStep = 4
)

// partialState says whether a queue pair has an incomplete message in a buffer of an SRQ.
type partialState uint8

const (
	// partialNone: the queue pair has no incomplete message, or has no SRQ.
	partialNone partialState = iota
	// partialMoving: a message is incomplete, and the timer runs.
	partialMoving
	// partialStalled: a message is incomplete, and less than partialProgress bytes have
	// arrived before the timer has fired. The next fragment leads to partialMoving or
	// partialNone.
	partialStalled
)

// A partialMessage watches the progress of messages in buffers of an SRQ. The timer is
// not stopped when a message is complete, so that it is not started for each message.
type partialMessage struct {
	state partialState
	share *partialShare // share of the peer; nil before the first incomplete message
	timer Timer
	// number of messages so far that have more than one fragment
	messages uint64
	started  partialMark // part of the message that had arrived when the timer was started
	refusals uint8       // number of refusals in a row because of the share, at most maxRefusals
}

// maxRefusals is the number of refusals after which the timer code of RNR NAKs does not
// grow any more.
const maxRefusals = (verbs.MaxTimerCode + 1) / rnrCodeStep

// A partialMark says how much of a message has arrived at some time.
type partialMark struct {
	messages uint64 // number of the message, counted by partialMessage.messages
	offset   uint32 // number of bytes of the message that have arrived
}

// watch starts the timer. The parameter offset is how many bytes have arrived.
func (p *partialMessage) watch(offset uint32, limit time.Duration) {
	p.started = partialMark{p.messages, offset}
	p.timer.Start(limit)
}

// stalls reports whether fewer than partialProgress bytes of the same message have
// arrived since the mark. The parameter offset is how many bytes have arrived.
func (p *partialMessage) stalls(since partialMark, offset uint32) bool {
	return since.messages == p.messages && offset-since.offset < partialProgress
}

// partialLimit returns the time in which partialProgress bytes of a message must arrive.
// Usually a sender stops its retries before this time has passed.
func (q *QP) partialLimit() time.Duration {
	timeout := verbs.AckTimeout(q.attr.Timeout)
	// The code 0 means an infinite ACK timeout.
	if q.attr.Timeout == 0 {
		timeout = maxPartialLimit
	}
	return min(max(partialFactor*timeout*time.Duration(q.attr.RetryCount+1), minPartialLimit), maxPartialLimit)
}

// mayBegin reports whether a message of several fragments may take a buffer. If the share
// of the peer's source is used up, mayBegin counts a refusal.
func (q *QP) mayBegin() bool {
	if q.srq == nil {
		return true
	}
	p, b := &q.partial, &q.srq.partial
	if p.share == nil {
		// Queue pairs of this process have the zero value in common.
		source, _ := q.rc.AccessSource()
		p.share = b.join(source)
	}
	if b.allows(p.share, int(q.srq.rq.most), q.srq.refs) {
		return true
	}
	p.refusals = min(p.refusals+1, maxRefusals)
	q.Shard.Counts.Inc(counters.PartialRefused)
	b.reclaim(p.share)
	return false
}

// RNRTimer returns the timer code for an RNR NAK; see rnrCodeStep. It is MinRNRTimer or
// means a longer time (IBTA vol. 1, 9.7.5.2.8).
func (q *QP) RNRTimer() uint8 {
	code := q.attr.MinRNRTimer
	if code == 0 { // the longest time
		return 0
	}
	if code += rnrCodeStep * q.partial.refusals; code > verbs.MaxTimerCode {
		return 0
	}
	return code
}

// onFragment is called for each fragment of a SEND except the last.
func (q *QP) onFragment(first bool) {
	if q.srq == nil {
		return
	}
	p := &q.partial
	if first {
		p.messages++
		p.state, p.refusals = partialMoving, 0
		p.share.held++
		q.srq.partial.held++
	}
	if !p.timer.Running() {
		q.setStalled(false)
		p.watch(q.responder.offset, q.partialLimit())
	}
}

// endPartial is called when the incomplete message of partialMoving or partialStalled has
// ended.
func (q *QP) endPartial() {
	q.setStalled(false)
	q.partial.state = partialNone
	q.partial.share.held--
	q.srq.partial.held--
}

// setStalled changes between partialMoving and partialStalled.
func (q *QP) setStalled(stalled bool) {
	p, b := &q.partial, &q.srq.partial
	switch {
	case stalled == (p.state == partialStalled):
	case stalled:
		p.state = partialStalled
		p.share.stalled++
		b.stalled = append(b.stalled, q)
	default:
		p.state = partialMoving
		p.share.stalled--
		i := slices.Index(b.stalled, q)
		b.stalled = slices.Delete(b.stalled, i, i+1)
	}
}

// onPartialTimer checks whether the incomplete message has stalled. If not, it starts the
// timer again.
func (q *QP) onPartialTimer() {
	if q.partial.state == partialNone {
		return
	}
	started := q.partial.started
	if q.local != nil {
		q.local.ConsumeArrived() // This may end the message, and begin another one.
	}
	switch {
	case q.partial.state == partialNone:
	case q.partial.stalls(started, q.responder.offset):
		q.partial.timer.Stop()
		q.setStalled(true)
	default:
		q.partial.watch(q.responder.offset, q.partialLimit())
	}
}

// endStalled ends the connection of a stalled message.
func (q *QP) endStalled() {
	q.Shard.Counts.Inc(counters.PartialExpired)
	q.rc.Abort(q.failReceive(verbs.StatusRespTimeoutErr, OutcomeOperationError))
}

// leavePartial ends the use of the share when the queue pair loses its path.
func (q *QP) leavePartial() {
	p := &q.partial
	p.timer.Stop()
	if p.state != partialNone {
		q.endPartial()
	}
	if p.share != nil {
		q.srq.partial.leave(p.share)
		p.share, p.refusals = nil, 0
	}
}
