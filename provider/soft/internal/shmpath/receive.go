//go:build linux

package shmpath

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// This file consumes the slots of the other shard. It is the responder's half of a local
// connection.

// receive consumes up to receiveBudget slots. It returns false if there are none.
func (p *peer) receive() bool {
	if p.receiving || p.state != sharingOpen {
		return false
	}
	p.receiving = true
	defer func() { p.receiving = false }()
	n := 0
	for ; n < receiveBudget && p.state == sharingOpen; n++ {
		done, wait := p.receiveInline()
		if done {
			continue
		}
		if wait && !p.draining {
			break
		}
		var s shm.Slot
		filled, ok := p.in.Peek(&s)
		if !filled {
			break
		}
		if !ok {
			p.protocolError()
			return true
		}
		if s.Op >= shm.Stopped {
			p.takeShared(&s)
		}
		if c := p.conns.find(s.Dest.QPN()); c != nil {
			c.consume(&s)
		}
		p.in.Advance(&s)
		p.acks.consumed(s.Flags&(shm.FlagArea|shm.FlagAckReq) != 0)
	}
	if n == 0 {
		return false
	}
	if !p.confirmed {
		p.confirmed = true
		p.end.Confirm()
	}
	p.flush()
	if p.acks.due(uint32(p.in.Len() / 4)) {
		p.acknowledge()
	}
	return true
}

// receiveInline executes the next slot if the present poll can return its message. The result
// done is true if the slot was executed. The result wait is true if the slot was not
// executed, but the next poll can return its message.
func (p *peer) receiveInline() (done, wait bool) {
	payload, to, flags, ok := p.in.PeekSend()
	if !ok {
		return false, false
	}
	c := p.last
	if c == nil || c.accepts != to {
		if c = p.conns.find(to.QPN()); c == nil || c.accepts != to {
			return false, false
		}
		p.last = c
	}
	if !c.serving {
		return false, false
	}
	if c.q.DeliverInline(payload, flags&fragment.Solicited != 0) == nil {
		return false, c.q.InlineBatchFull()
	}
	if c.tap != nil {
		c.recordInline()
	}
	p.in.AdvanceSend()
	p.acks.consumed(flags&shm.FlagAckReq != 0)
	return true, false
}

// consume processes one slot. It drops a request if the peer has sent it before the last
// RNR NAK arrived. It drops all requests if the queue pair executes none any more.
func (c *Conn) consume(s *shm.Slot) {
	switch s.Op {
	case shm.Ready, shm.ReadyToo:
		c.takeReady(s)
	case shm.Refused, shm.Stopped:
		c.takeRefusal(s)
	case shm.Granted:
		c.takeGrant(s)
	case shm.Share:
		c.share(s.Imm)
	case shm.Shared: // takeShared has already processed this slot.
	case fragment.ReadData, fragment.AtomicResult:
		c.takeResponse(s)
	default:
		if c.serving && s.Dest == c.accepts {
			c.execute(s)
		}
	}
}

// takeReady processes a slot in which a queue pair says that it is ready. The slot is
// ignored if it is not from the peer of this queue pair, or if that peer has a newer
// connection.
func (c *Conn) takeReady(s *shm.Slot) {
	from := shm.Dest(s.Imm)
	if from.QPN() != c.dest.QPN() || !c.serving || c.state == peerStopped {
		return
	}
	if c.answeredTo != from {
		c.answerReady(from)
	}
	// A slot Ready may be from an earlier connection of the same queue pairs. So it is only
	// valid for the first connection of this queue pair. A slot ReadyToo names the attempt
	// that it answers.
	if s.Op == shm.ReadyToo && uint8(s.Addr) == c.first || c.isFirst {
		c.onReady(from)
	}
}

// answerReady tells the peer that this queue pair is ready too.
func (c *Conn) answerReady(to shm.Dest) {
	if c.answers++; c.answers > maxAnswers {
		return
	}
	c.answeredTo = to
	c.p.notify(notice{op: shm.ReadyToo, to: c.dest, imm: uint32(shm.NewDest(c.q.Num(), c.first)), value: to.Attempt()})
}

// takeRefusal processes a slot in which the peer says which requests it has not
// executed.
func (c *Conn) takeRefusal(s *shm.Slot) {
	if c.state != peerReady {
		return // The slot is for an earlier connection of the same queue pairs.
	}
	seq, ok := c.p.sent.position(s.Imm)
	switch {
	case !ok:
		c.p.protocolError()
	case s.Op == shm.Stopped:
		c.onStopped(seq)
	default:
		c.onRefused(seq, shm.NAK(s.Addr))
	}
}

func (c *Conn) execute(s *shm.Slot) {
	if c.tap != nil {
		c.tap.Received(&s.Fragment, s.Flags&shm.FlagAckReq != 0)
	}
	var o qp.Outcome
	switch s.Op {
	case fragment.CompareSwap, fragment.FetchAdd:
		o = c.executeAtomic(s)
	case fragment.Read:
		o = c.executeRead(s)
	default:
		o = c.q.Deliver(&s.Fragment)
	}
	switch o {
	case qp.OutcomeAck:
		if s.First() && s.Total > 0 {
			c.executedKey = s.Key
		}
		if c.tap != nil && s.Flags&shm.FlagAckReq != 0 {
			c.oweAck()
		}
	case qp.OutcomeRNR:
		c.q.ForgetWrite()
		c.nextAttempt()
		c.q.Counts().RNRSent()
		c.refuse(c.p.in.Head, shm.RNRNAK(c.q.RNRTimer()))
	default:
		c.Abort(o)
	}
}

// refuse sends a NAK for the request in the slot at a position.
func (c *Conn) refuse(at uint32, nak shm.NAK) {
	if _, rnr := nak.RNRTimer(); rnr && c.p.notices.waits(c.refusal) {
		// The peer has repeated a request without having the RNR NAK.
		c.p.protocolError()
		return
	}
	if c.tap != nil {
		c.tap.Refuse(syndromeOf(nak))
	}
	c.refusal = c.p.notify(notice{op: shm.Refused, to: c.dest, imm: at, value: uint8(nak)})
}

// nextAttempt is called when a request is refused with an RNR NAK. The connection then
// drops all requests until the peer repeats the refused one.
func (c *Conn) nextAttempt() {
	c.accepts = shm.NewDest(c.q.Num(), c.q.NextAttempt())
}

// Abort implements qp.ReliablePath. The peer must get the responses to earlier requests
// before the failure. While such responses wait, Abort keeps the failure in c.failed.
func (c *Conn) Abort(o qp.Outcome) {
	switch {
	case len(c.responses) == 0 || len(c.responses) == qp.MaxRdAtomic:
		c.fail(o, c.p.in.Head)
	case c.failed == qp.OutcomeAck:
		c.failed, c.failedAt = o, c.p.in.Head
		c.p.unsettled++
		c.nextAttempt()
	}
}

// fail sends the NAK for the request in the slot at a position, and fails the queue pair.
func (c *Conn) fail(o qp.Outcome, at uint32) {
	c.refuse(at, shm.FailureNAK(failureOf(o)))
	c.q.RequestFailed(o)
}

// executeAtomic executes an atomic. If the ring has no room for the result, the result
// waits.
func (c *Conn) executeAtomic(s *shm.Slot) qp.Outcome {
	if len(c.responses) == qp.MaxRdAtomic {
		return c.q.OnInvalidRequest()
	}
	old, o := c.q.DeliverAtomic(&s.Fragment)
	if o == qp.OutcomeAck {
		c.respond(response{op: fragment.AtomicResult, old: old})
	}
	return o
}

// executeRead checks a READ, and sends its data. If the ring has no room, the rest of
// the data waits.
func (c *Conn) executeRead(s *shm.Slot) qp.Outcome {
	if len(c.responses) == qp.MaxRdAtomic {
		return c.q.OnInvalidRequest()
	}
	left, o := c.q.DeliverRead(&s.Fragment)
	if o == qp.OutcomeAck {
		c.respond(response{op: fragment.ReadData, left: left})
	}
	return o
}

// respond sends a response. If earlier responses wait, this one waits too.
func (c *Conn) respond(r response) {
	c.responses = append(c.responses, r)
	if len(c.responses) == 1 {
		c.sendResponses()
	}
}

// sendResponses sends the responses that wait. It returns false if some are left.
func (c *Conn) sendResponses() bool {
	for len(c.responses) > 0 {
		if !c.sendResponse(&c.responses[0]) {
			return false
		}
		c.responses = c.responses[:copy(c.responses, c.responses[1:])]
	}
	if c.failed != qp.OutcomeAck {
		c.fail(c.failed, c.failedAt)
		return false
	}
	return true
}

// sendResponse sends the rest of a response. It returns false if the ring is full or the
// queue pair has failed.
func (c *Conn) sendResponse(r *response) bool {
	s := shm.Slot{Dest: c.dest, Fragment: fragment.Fragment{Op: r.op}}
	want := r.left.Left
	if r.op == fragment.AtomicResult {
		want = 8
	}
	for {
		dst, inArea, ok := c.p.reserve(want)
		if !ok {
			c.p.block(c)
			return false
		}
		if r.op == fragment.AtomicResult {
			// The peer stores these bytes as they are, so they have the host's byte order.
			binary.NativeEndian.PutUint64(dst, r.old)
		} else if o := c.q.ReadInto(dst, &r.left); o != qp.OutcomeAck {
			// The memory region may have been closed after the READ was checked.
			c.fail(o, c.p.in.Head)
			return false
		}
		want -= uint32(len(dst))
		s.Length, s.Flags = uint32(len(dst)), 0
		if want == 0 {
			s.Flags = fragment.Last
		}
		if inArea {
			s.Flags |= shm.FlagArea
		}
		c.p.put(&s)
		if c.tap != nil {
			c.tap.ResponseSent(dst, want == 0)
		}
		if want == 0 {
			return true
		}
	}
}

// acks decides when the slots of the peer are acknowledged.
type acks struct {
	unacked   uint32 // number of slots consumed and not acknowledged
	requested bool   // true if the peer waits for an acknowledgement
	// position before which all requests were acknowledged as executed
	executed uint32
}

// consumed counts a consumed slot. If ask is true, the peer waits for the
// acknowledgement of this slot.
func (a *acks) consumed(ask bool) {
	a.unacked++
	a.requested = a.requested || ask
}

// due reports whether an acknowledgement has to be sent now. The peer may be waiting for
// it, or the number of unacknowledged slots has reached the limit. Otherwise the
// acknowledgement may be sent later.
func (a *acks) due(limit uint32) bool { return a.requested || a.unacked >= limit }

// acknowledge returns the acknowledgement of all slots before the position head. If some
// of them were not executed, the peer must also get notices. The parameter refusalsSent
// is false if such a notice waits for room in the ring.
func (a *acks) acknowledge(head uint32, refusalsSent bool) shm.Ack {
	a.unacked, a.requested = 0, false
	if refusalsSent {
		a.executed = head
	}
	return shm.NewAck(head, a.executed)
}
