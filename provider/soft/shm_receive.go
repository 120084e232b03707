//go:build linux

package soft

import (
	"encoding/binary"
)

// The receiving half of the local path: the peer's requests in, answers out.

// Syndromes of the AETH (IBTA vol. 1, 9.3.5): a kind in the upper three bits, a
// timer or NAK code in the lower five.
const (
	aethRNR  = 1 << 5
	aethNAK  = 3 << 5
	aethCode = 0x1f

	nakInvalidRequest = 1
	nakOperation      = 3
)

// receive carries out the peer's requests, within a budget.
func (c *shmConn) receive() bool {
	var r inboundRequest
	n := 0
	for ; n < receiveBudget && c.isServing(); n++ {
		if c.readInProgress && !c.sendReadResponse() {
			break
		}
		if c.awaitsRetry {
			if c.peer.resend.Load() == c.resendSeen {
				break
			}
			c.awaitsRetry = false
		}
		more, ok := c.requestsIn.peek(&r)
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
	// Answers that nobody waits for wait until there is nothing else to do, or
	// until the peer may run out of room.
	if c.ackRequested || c.unacked >= uint32(len(c.requestsIn.slots)/4) {
		c.acknowledge()
	}
	return true
}

// serve carries out one request and reports whether to go on with the next.
func (c *shmConn) serve(r *inboundRequest) bool {
	var a outcome
	switch r.op {
	case frameCompareSwap, frameFetchAdd:
		dst, _, ok := c.reserveResponse(8) // before it is carried out
		if !ok {
			return false
		}
		a = c.serveAtomic(r, dst)
	case frameRead:
		c.readLeft, a = c.q.deliverRead(r)
		c.readInProgress = a == outcomeAck
	default:
		a = c.q.deliver(r)
	}
	switch a {
	case outcomeAck:
		c.requestsIn.advance(&r.frame)
		c.unacked++
		c.ackRequested = c.ackRequested || r.flags&(flagArea|flagAckReq) != 0
		return true
	case outcomeRNR:
		c.awaitsRetry = true
		c.q.shard.counts.notReady()
		c.resendSeen = c.peer.resend.Load()
		c.sendNAK(aethRNR | c.q.attr.MinRNRTimer)
	default:
		c.abort(a)
	}
	return false
}

// source implements path.
func (c *shmConn) accessSource() (accessSource, bool) {
	return c.end.peer, c.end.peer != accessSource{}
}

// requestsPending implements path.
func (c *shmConn) requestsPending() bool { return c.requestsIn.ready() }

// abort implements path.
func (c *shmConn) abort(a outcome) {
	c.sendNAK(aethNAK | (uint8(a-outcomeInvalidRequest) + nakInvalidRequest))
	c.q.requestFailed(a)
}

func (c *shmConn) serveAtomic(r *inboundRequest, dst []byte) outcome {
	old, a := c.q.deliverAtomic(r)
	if a == outcomeAck {
		binary.NativeEndian.PutUint64(dst, old) // it goes to the memory as it is
		c.responsesOut.publish(&frame{op: frameAtomicResult, flags: flagFirst | flagLast, length: 8})
		c.wakeDue = true
	}
	return a
}

// reserveResponse reserves room on the response ring, taking back what the peer has
// consumed if need be.
func (c *shmConn) reserveResponse(want uint32) (dst []byte, inArea, ok bool) {
	if dst, inArea, ok = c.responsesOut.reserve(want); !ok {
		if !c.responsesOut.free(c.peer.responses.Load()) {
			c.protocolError()
			return nil, false, false
		}
		dst, inArea, ok = c.responsesOut.reserve(want)
	}
	c.responsesBlocked = !ok
	return dst, inArea, ok
}

// sendReadResponse sends the data of the READ under way, and reports whether all of
// it is out.
func (c *shmConn) sendReadResponse() bool {
	defer c.wakePeer()
	for c.readInProgress {
		dst, inArea, ok := c.reserveResponse(c.readLeft.left)
		if !ok {
			return false
		}
		if !c.q.readInto(dst, &c.readLeft) { // the region was closed meanwhile
			c.abort(outcomeAccessError)
			return false
		}
		f := frame{op: frameReadData, length: uint32(len(dst))}
		if c.readLeft.left == 0 {
			f.flags = flagLast
			c.readInProgress = false
		}
		if inArea {
			f.flags |= flagArea
		}
		c.responsesOut.publish(&f)
		c.wakeDue = true
	}
	return true
}

// acknowledge answers all requests consumed so far. Only a peer that waits for
// answers is woken.
func (c *shmConn) acknowledge() {
	c.unacked, c.ackRequested = 0, false
	c.storeAck()
	c.wake(wakeAll)
}

// refuse answers the request at hand with a negative syndrome.
func (c *shmConn) sendNAK(syndrome uint8) {
	c.unacked, c.ackRequested = 0, false
	c.nakCount++
	c.syndrome = syndrome
	c.storeAck()
	c.wake(wakeSlots)
}

// answer stores the answer: count, syndrome, and the number of negative answers,
// by which the peer tells a new one from the last one that it has seen already.
func (c *shmConn) storeAck() {
	c.own.ack.Store(uint64(c.requestsIn.head) | uint64(c.syndrome)<<32 | uint64(c.nakCount)<<40)
}

// offer: see path. The peer comes again when its RNR timer is up, as it has been
// told.
func (c *shmConn) receivesPosted() {}

var _ path = (*shmConn)(nil)
