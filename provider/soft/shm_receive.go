//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// This file has the receiving half of the local path, which executes requests.

// serveState is the state of the responder of a shmConn.
type serveState uint8

const (
	// serveNext: the next slot is executed as soon as it is published. A connection
	// begins in this state.
	serveNext serveState = iota
	// serveAfterResend: an RNR NAK was sent for the next slot. The state ends when the
	// peer increments Resend.
	serveAfterResend
	// serveRead: the response of a READ is not complete. The next slot is executed after
	// it.
	serveRead
	// serveReadBlocked: the response of a READ waits for room in the ring. The state
	// ends when the peer has consumed a response.
	serveReadBlocked
	// serveAtomicBlocked: the next slot has an atomic. Its response waits for room in
	// the ring.
	serveAtomicBlocked
)

// inRead reports whether the response of a READ is not complete.
func (s serveState) inRead() bool { return s == serveRead || s == serveReadBlocked }

// requestMissed is the part of workMissed for requests: a slot to execute, or a READ
// response to continue.
func (c *shmConn) requestMissed() bool {
	switch c.serving {
	case serveRead:
		return true
	case serveAfterResend:
		return c.peer.Resend.Load() != c.resendSeen
	case serveReadBlocked, serveAtomicBlocked:
		return c.peer.Responses.Load() != c.responsesOut.Freed
	}
	return c.requestsIn.Ready()
}

// receive executes up to receiveBudget slots. It returns false if it has executed none.
func (c *shmConn) receive() bool {
	var r fragment.Fragment
	n := 0
	for ; n < receiveBudget && c.isServing(); n++ {
		if c.serving != serveNext && !c.resumeServing() {
			break
		}
		if c.serveInline() {
			continue
		}
		more, ok := c.requestsIn.Peek(&r)
		if !more {
			break
		}
		if !ok {
			c.protocolError()
			return true
		}
		if !c.serve(&r) {
			break
		}
	}
	if n == 0 {
		return false
	}
	c.wakePeer()
	if c.acks.due(uint32(c.requestsIn.Len() / 4)) {
		c.acknowledge()
	}
	return true
}

// resumeServing continues a READ response, and reports whether the next slot may be
// executed.
func (c *shmConn) resumeServing() bool {
	switch c.serving {
	case serveRead, serveReadBlocked:
		return c.sendReadResponse()
	case serveAfterResend:
		if c.peer.Resend.Load() == c.resendSeen {
			return false
		}
	}
	c.serving = serveNext
	return true
}

// serveInline executes the next slot if PollInline can return its message. If not, it
// returns false.
func (c *shmConn) serveInline() bool {
	payload, flags, ok := c.requestsIn.PeekSend()
	if !ok || !c.q.deliverInline(payload, flags&fragment.Solicited != 0) {
		return false
	}
	c.requestsIn.AdvanceSend()
	c.acks.consumed(flags&shm.FlagAckReq != 0)
	return true
}

// serve executes one slot, and reports whether the next one may be executed.
func (c *shmConn) serve(r *fragment.Fragment) bool {
	var a outcome
	switch r.Op {
	case fragment.CompareSwap, fragment.FetchAdd:
		// An atomic must not be executed twice, so its response slot is reserved first.
		dst, _, ok := c.reserveResponse(8)
		if !ok {
			c.serving = serveAtomicBlocked
			return false
		}
		a = c.serveAtomic(r, dst)
	case fragment.Read:
		if c.readLeft, a = c.q.deliverRead(r); a == outcomeAck {
			c.serving = serveRead
		}
	default:
		a = c.q.deliver(r)
	}
	switch a {
	case outcomeAck:
		c.requestsIn.Advance(r)
		c.acks.consumed(r.Flags&(shm.FlagArea|shm.FlagAckReq) != 0)
		return true
	case outcomeRNR:
		c.serving = serveAfterResend
		c.q.shard.counts.RNRSent()
		c.resendSeen = c.peer.Resend.Load()
		c.sendNAK(shm.RNRNAK(c.q.attributes().MinRNRTimer))
	default:
		c.abort(a)
	}
	return false
}

// accessSource implements path. The field end.peer is zero if the peer is this process.
func (c *shmConn) accessSource() (access.Source, bool) {
	return c.end.peer, c.end.peer != access.Source{}
}

// requestsPending implements path.
func (c *shmConn) requestsPending() bool { return c.requestsIn.Ready() }

// abort implements path. It sends the NAK at once.
func (c *shmConn) abort(a outcome) {
	c.sendNAK(shm.FailureNAK(failureOf(a)))
	c.q.requestFailed(a)
}

// serveAtomic executes an atomic, and publishes the old value in the reserved slot,
// whose payload is dst.
func (c *shmConn) serveAtomic(r *fragment.Fragment, dst []byte) outcome {
	old, a := c.q.deliverAtomic(r)
	if a == outcomeAck {
		// The peer copies the bytes unchanged to its memory.
		binary.NativeEndian.PutUint64(dst, old)
		c.responsesOut.Publish(&fragment.Fragment{Op: fragment.AtomicResult, Flags: fragment.First | fragment.Last, Length: 8})
		c.wakeDue = true
	}
	return a
}

// reserveResponse reserves a slot in the ring of responses; see shm.Producer.Reserve. If
// the ring is full, it first frees consumed slots. It returns false on failure.
func (c *shmConn) reserveResponse(want uint32) (dst []byte, inArea, ok bool) {
	if dst, inArea, ok = c.responsesOut.Reserve(want); !ok {
		if !c.responsesOut.Free(c.peer.Responses.Load()) {
			c.protocolError()
			return nil, false, false
		}
		dst, inArea, ok = c.responsesOut.Reserve(want)
	}
	return dst, inArea, ok
}

// sendReadResponse publishes data of the current READ. It returns false if the ring is
// full.
func (c *shmConn) sendReadResponse() bool {
	defer c.wakePeer()
	for c.serving.inRead() {
		dst, inArea, ok := c.reserveResponse(c.readLeft.left)
		if !ok {
			c.serving = serveReadBlocked
			return false
		}
		// The memory region was closed after the READ was checked.
		if !c.q.readInto(dst, &c.readLeft) {
			c.abort(outcomeAccessError)
			return false
		}
		f := fragment.Fragment{Op: fragment.ReadData, Length: uint32(len(dst))}
		if c.readLeft.left == 0 {
			f.Flags = fragment.Last
			c.serving = serveNext
		}
		if inArea {
			f.Flags |= shm.FlagArea
		}
		c.responsesOut.Publish(&f)
		c.wakeDue = true
	}
	return true
}

// acknowledge acknowledges all consumed slots. It wakes a peer that waits for
// acknowledgements.
func (c *shmConn) acknowledge() {
	c.own.Ack.Store(uint64(c.acks.acknowledge(c.requestsIn.Head)))
	c.wake(shm.WakeAll)
}

// sendNAK acknowledges the consumed slots, with a NAK or RNR NAK for the next one.
func (c *shmConn) sendNAK(nak shm.NAK) {
	c.own.Ack.Store(uint64(c.acks.refuse(c.requestsIn.Head, nak)))
	c.wake(shm.WakeSlots)
}

// receivesPosted implements path. A waiting peer repeats its request when its RNR timer
// fires.
func (c *shmConn) receivesPosted() {}

var _ path = (*shmConn)(nil)
