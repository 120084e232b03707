//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// This file has the receiving half of the local path: it executes the peer's requests,
// and sends acknowledgements and responses.

// receive executes up to receiveBudget slots of the peer's requests, and reports whether
// it consumed any.
func (c *shmConn) receive() bool {
	var r fragment.Fragment
	n := 0
	for ; n < receiveBudget && c.isServing(); n++ {
		if c.readInProgress && !c.sendReadResponse() {
			break
		}
		if c.awaitsRetry {
			if c.peer.Resend.Load() == c.resendSeen {
				break
			}
			c.awaitsRetry = false
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
	// If the peer does not wait for an acknowledgement, the acknowledgement is delayed
	// until there is no other work, or until a quarter of the peer's slots is
	// unacknowledged.
	if c.ackRequested || c.unacked >= uint32(c.requestsIn.Len()/4) {
		c.acknowledge()
	}
	return true
}

// serve executes the fragment of one slot. It reports whether the next slot may be
// executed.
func (c *shmConn) serve(r *fragment.Fragment) bool {
	var a outcome
	switch r.Op {
	case fragment.CompareSwap, fragment.FetchAdd:
		// A response slot is reserved before the atomic changes memory.
		dst, _, ok := c.reserveResponse(8)
		if !ok {
			return false
		}
		a = c.serveAtomic(r, dst)
	case fragment.Read:
		c.readLeft, a = c.q.deliverRead(r)
		c.readInProgress = a == outcomeAck
	default:
		a = c.q.deliver(r)
	}
	switch a {
	case outcomeAck:
		c.requestsIn.Advance(r)
		c.unacked++
		c.ackRequested = c.ackRequested || r.Flags&(shm.FlagArea|shm.FlagAckReq) != 0
		return true
	case outcomeRNR:
		c.awaitsRetry = true
		c.q.shard.counts.RNRSent()
		c.resendSeen = c.peer.Resend.Load()
		c.sendNAK(shm.RNRNAK(c.q.attributes().MinRNRTimer))
	default:
		c.abort(a)
	}
	return false
}

// accessSource implements path.
func (c *shmConn) accessSource() (access.Source, bool) {
	return c.end.peer, c.end.peer != access.Source{}
}

// requestsPending implements path.
func (c *shmConn) requestsPending() bool { return c.requestsIn.Ready() }

// abort implements path.
func (c *shmConn) abort(a outcome) {
	c.sendNAK(shm.FailureNAK(shm.InvalidRequest + shm.Failure(a-outcomeInvalidRequest)))
	c.q.requestFailed(a)
}

// serveAtomic executes an atomic operation, and publishes the old value in a response
// slot. The slot is already reserved, and dst is its payload.
func (c *shmConn) serveAtomic(r *fragment.Fragment, dst []byte) outcome {
	old, a := c.q.deliverAtomic(r)
	if a == outcomeAck {
		// The peer copies the bytes to its memory unchanged.
		binary.NativeEndian.PutUint64(dst, old)
		c.responsesOut.Publish(&fragment.Fragment{Op: fragment.AtomicResult, Flags: fragment.First | fragment.Last, Length: 8})
		c.wakeDue = true
	}
	return a
}

// reserveResponse reserves a response slot. It returns memory for a payload, whose
// length is at most the parameter want; see shm.Producer.Reserve. If the ring is full,
// it first reuses the slots that the peer has consumed.
func (c *shmConn) reserveResponse(want uint32) (dst []byte, inArea, ok bool) {
	if dst, inArea, ok = c.responsesOut.Reserve(want); !ok {
		if !c.responsesOut.Free(c.peer.Responses.Load()) {
			c.protocolError()
			return nil, false, false
		}
		dst, inArea, ok = c.responsesOut.Reserve(want)
	}
	c.responsesBlocked = !ok
	return dst, inArea, ok
}

// sendReadResponse publishes data of the current READ until the ring is full. It reports
// whether all data was published.
func (c *shmConn) sendReadResponse() bool {
	defer c.wakePeer()
	for c.readInProgress {
		dst, inArea, ok := c.reserveResponse(c.readLeft.left)
		if !ok {
			return false
		}
		// The memory region was closed in the meantime.
		if !c.q.readInto(dst, &c.readLeft) {
			c.abort(outcomeAccessError)
			return false
		}
		f := fragment.Fragment{Op: fragment.ReadData, Length: uint32(len(dst))}
		if c.readLeft.left == 0 {
			f.Flags = fragment.Last
			c.readInProgress = false
		}
		if inArea {
			f.Flags |= shm.FlagArea
		}
		c.responsesOut.Publish(&f)
		c.wakeDue = true
	}
	return true
}

// acknowledge acknowledges all slots consumed so far. It wakes a parked peer only if the
// peer has asked to be woken for acknowledgements.
func (c *shmConn) acknowledge() {
	c.unacked, c.ackRequested = 0, false
	c.storeAck()
	c.wake(shm.WakeAll)
}

// sendNAK acknowledges the slots consumed so far, and sends a NAK or RNR NAK for the next
// slot.
func (c *shmConn) sendNAK(nak shm.NAK) {
	c.unacked, c.ackRequested = 0, false
	c.nakCount++
	c.lastNAK = nak
	c.storeAck()
	c.wake(shm.WakeSlots)
}

// storeAck publishes the acknowledgement.
func (c *shmConn) storeAck() {
	c.own.Ack.Store(uint64(shm.NewAck(c.requestsIn.Head, c.lastNAK, c.nakCount)))
}

// receivesPosted implements path. It does nothing, because the peer repeats the request
// when its RNR timer fires.
func (c *shmConn) receivesPosted() {}

var _ path = (*shmConn)(nil)
