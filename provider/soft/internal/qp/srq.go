//go:build linux

package qp

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// srq implements verbs.SRQ. It belongs to the shard of its CQ.
type srq struct {
	pd    *pd
	cq    *cq
	shard *Shard
	rq    recvQueue
	caps  verbs.SRQCaps
	// The SRQ is armed if the limit is above 0. When fewer buffers than the limit are
	// left, AsyncSRQLimit is raised, and the limit becomes 0.
	limit   int
	refs    int // number of queue pairs with this SRQ
	partial partialBuffers
	closed  bool
}

// CreateSRQ implements verbs.PD.
func (p *pd) CreateSRQ(attr *verbs.SRQAttr) (verbs.SRQ, error) {
	s, err := p.createSRQ(attr)
	if err != nil {
		return nil, operr.Wrap("create SRQ", err)
	}
	return s, nil
}

func (p *pd) createSRQ(attr *verbs.SRQAttr) (*srq, error) {
	if attr == nil {
		return nil, errNilAttr
	}
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"SRQ WRs", attr.MaxWR, 1, maxSRQWR},
		{"SRQ SGEs", attr.MaxSGE, 0, maxSGE},
		{"SRQ buffers of a QP", attr.BuffersPerQP, 0, math.MaxInt},
	} {
		if err := operr.CheckRange(f.name, f.value, f.low, f.high); err != nil {
			return nil, err
		}
	}
	c, err := p.checkCQ(attr.CQ)
	if err != nil {
		return nil, err
	}
	caps := verbs.SRQCaps{MaxWR: attr.MaxWR, MaxSGE: max(attr.MaxSGE, 1)}
	p.refs.Add(1)
	return &srq{
		pd: p, cq: c, shard: c.shard, caps: caps, rq: newRecvQueue(caps.MaxWR, caps.MaxSGE),
		partial: partialBuffers{unlimited: attr.BuffersPerQP > 0},
	}, nil
}

// Caps implements verbs.SRQ.
func (s *srq) Caps() verbs.SRQCaps { return s.caps }

// PostRecv implements verbs.SRQ.
func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) {
	s.shard.Enter()
	defer s.shard.Leave()
	if s.closed {
		return 0, operr.Wrap("post SRQ receive", verbs.ErrClosed)
	}
	n, err := s.rq.post(wrs)
	return n, operr.Wrap("post SRQ receive", err)
}

// Arm implements verbs.SRQ.
func (s *srq) Arm(limit int) error {
	s.shard.Enter()
	defer s.shard.Leave()
	if s.closed {
		return operr.Wrap("arm SRQ", verbs.ErrClosed)
	}
	if err := operr.CheckRange("SRQ limit", limit, 0, s.caps.MaxWR); err != nil {
		return operr.Wrap("arm SRQ", err)
	}
	s.limit = limit
	s.checkLimit()
	return nil
}

// pop takes the oldest buffer; see recvQueue.pop. If there is none, a stalled message
// gives its buffer back.
func (s *srq) pop(into *rqe) bool {
	if !s.rq.pop(into) {
		s.partial.reclaim(nil)
		return false
	}
	s.checkLimit()
	return true
}

// checkLimit raises AsyncSRQLimit and disarms the SRQ, if the limit is reached.
func (s *srq) checkLimit() {
	if s.limit > 0 && s.rq.len() < s.limit {
		s.limit = 0
		s.pd.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncSRQLimit, SRQ: s})
	}
}

// Close implements verbs.SRQ.
func (s *srq) Close() error {
	s.shard.Enter()
	defer s.shard.Leave()
	if s.closed {
		return nil
	}
	if s.refs > 0 {
		return operr.Wrap("close SRQ", fmt.Errorf("%w: %d queue pairs use the SRQ", verbs.ErrBusy, s.refs))
	}
	s.closed = true
	s.pd.refs.Add(-1)
	s.pd.engine.async.forget(s)
	return nil
}

const (
	// partialShares is how many times the share of a source fits into an SRQ. Arbitrary.
	partialShares = 8
	// partialAmple is the number of buffers for each queue pair from which on there are no
	// shares. A queue pair has at most one incomplete message, so all together hold at most
	// a quarter of the buffers. The reactor posts four buffers for each connection by
	// default, up to 1024 in all.
	partialAmple = 4
)

// partialBuffers has the incomplete messages in the buffers of an SRQ. A message is
// incomplete while only a part of its fragments has arrived. A message of one fragment is
// never incomplete.
//
// Without a limit, a peer with many connections could occupy all buffers. So the
// incomplete messages of a source may hold 1/partialShares of the buffers that those of
// other sources do not hold. The first fragment of a further one is refused with an RNR
// NAK. If n sources hold as many as they may, about 3/4 * (7/8)^n of the buffers are
// left.
//
// A message stalls if it makes no progress during partialLimit. It then waits in the list
// stalled. If a message of the same source is refused, or the SRQ has no buffer for any
// message, the connection of one stalled message ends.
type partialBuffers struct {
	unlimited bool // true if no source has a limit; see verbs.SRQAttr.BuffersPerQP
	held      int  // number of buffers that incomplete messages hold
	shares    map[access.Source]*partialShare
	stalled   []*QP // queue pairs with a stalled message, in the order of stalling
}

// A partialShare has the incomplete messages of one source in the buffers of one SRQ.
type partialShare struct {
	source  access.Source
	refs    int // number of queue pairs that have this share
	held    int // number of buffers
	stalled int // number of stalled messages
}

// join returns the share of a source for one more queue pair.
func (b *partialBuffers) join(source access.Source) *partialShare {
	s := b.shares[source]
	if s == nil {
		s = &partialShare{source: source}
		if b.shares == nil {
			b.shares = make(map[access.Source]*partialShare)
		}
		b.shares[source] = s
	}
	s.refs++
	return s
}

// leave undoes join for one queue pair.
func (b *partialBuffers) leave(s *partialShare) {
	if s.refs--; s.refs == 0 {
		delete(b.shares, s.source)
	}
}

// allows reports whether another incomplete message of a source may take a buffer. The
// parameter size is the number of buffers of the SRQ, and qps the number of its queue
// pairs. Each source may have one message.
func (b *partialBuffers) allows(s *partialShare, size, qps int) bool {
	return s.held == 0 || partialAmple*qps <= size || s.held < (size-(b.held-s.held))/partialShares || b.unlimited
}

// reclaim ends the connection of the message that has stalled longest. If the parameter
// is not nil, only messages of this source count.
func (b *partialBuffers) reclaim(s *partialShare) {
	if s != nil && s.stalled == 0 {
		return
	}
	for _, q := range b.stalled {
		if s == nil || q.partial.share == s {
			q.endStalled()
			return
		}
	}
}

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

const (
	// pauseCodeStep is how much each refusal in a row adds to the timer code while receiving
	// is paused. Two codes mean about twice the time. So the peer waits after the pause about
	// as long as the pause was, at most the time of maxPauseCode.
	pauseCodeStep = 2
	// maxPauseCode is the timer code of 10.24 ms: a paused queue pair costs its peer and this
	// side about 100 packets a second. Arbitrary.
	maxPauseCode = 20
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

// RNRTimer returns the timer code for an RNR NAK; see rnrCodeStep and pauseCodeStep. It is
// MinRNRTimer or means a longer time (IBTA vol. 1, 9.7.5.2.8).
func (q *QP) RNRTimer() uint8 {
	code := q.attr.MinRNRTimer
	if code == 0 { // the longest time
		return 0
	}
	if q.refusals > 1 {
		code = max(code, min(code+pauseCodeStep*(q.refusals-1), maxPauseCode))
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
