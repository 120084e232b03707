//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The sending half of the local path: own requests out, answers in.

// transmit: see path.
func (c *shmConn) transmit() {
	// A link left to its bell is rung for slots only: who sends has to look for
	// the answers.
	c.s.makeActive(c)
	for w := c.q.nextToSend(); w != nil; w = c.q.nextToSend() {
		if !c.send(w) {
			break
		}
	}
	c.requestsOut.publishFirst()
	c.wakePeer()
}

// publishEvery is how many slots are handed over at once when there are many to send:
// it costs as much as writing several, but the first should not wait for the last.
const publishEvery = 8

// ring considers the peer's bell once for all that was published.
func (c *shmConn) wakePeer() {
	if c.wakeDue {
		c.wakeDue = false
		c.wake(wakeSlots)
	}
}

// send publishes a request, as far as there is room, and reports whether all of
// it is out.
func (c *shmConn) send(w *wqe) bool {
	var f frame
	for {
		dst, inArea, ok := c.reserveRequest(c.payloadLeft(w))
		if !ok {
			return false
		}
		c.describeFragment(&f, w, uint32(len(dst)))
		if inArea {
			f.flags |= flagArea
		}
		// From the first byte on the peer may be pulling at the cache line that
		// it polls: nothing else is done between filling the slot and publishing.
		if !c.fill(dst, w) {
			// The memory was closed after the request was checked.
			c.q.failRequest(w, verbs.StatusLocProtErr)
			return false
		}
		c.requestsOut.put(&f)
		if inArea || c.requestsOut.unpublished == publishEvery {
			c.requestsOut.publishFirst() // the peer copies one out while the next is copied in
		}
		c.seq++
		c.wakeDue = true
		c.q.markBegun(w)
		w.sent += uint32(len(dst))
		if f.flags&flagLast != 0 {
			c.q.markSent(w, c.seq-1)
			return true
		}
	}
}

// payload is how many bytes of the request are still to be sent.
func (c *shmConn) payloadLeft(w *wqe) uint32 {
	switch {
	case w.op == verbs.OpRead:
		return 0
	case w.op.Atomic():
		return atomicOperands
	}
	return w.total - w.sent
}

// atomicOperands is the size of an atomic's payload: swap or add, compare.
const atomicOperands = 16

// room reserves a slot, taking back what the peer has consumed if need be.
func (c *shmConn) reserveRequest(want uint32) (dst []byte, inArea, ok bool) {
	dst, inArea, ok = c.requestsOut.reserve(want)
	if ok {
		return dst, inArea, ok
	}
	if !c.requestsOut.free(uint32(c.peer.ack.Load())) {
		return nil, false, false // collect finds out, and ends the connection
	}
	return c.requestsOut.reserve(want)
}

// fragment describes the next length bytes of a request.
func (c *shmConn) describeFragment(f *frame, w *wqe, length uint32) {
	f.op, f.flags, f.length = frameOf[w.op], 0, length
	f.addr, f.key, f.total = w.addr, w.key, w.total
	if w.sent == 0 {
		f.flags = flagFirst
	}
	if c.q.signaled(w) {
		f.flags |= flagAckReq
	}
	if w.expectsResponse() {
		f.flags |= flagLast
		return
	}
	if w.sent+length == w.total {
		f.flags |= flagLast
		if w.op == verbs.OpSendImm || w.op == verbs.OpWriteImm {
			f.flags |= flagImm
			f.imm = w.imm
		}
		if w.flags&verbs.SendSolicited != 0 {
			f.flags |= flagSolicited
		}
	}
}

var frameOf = [...]frameOp{
	verbs.OpWrite:       frameWrite,
	verbs.OpWriteImm:    frameWrite,
	verbs.OpSend:        frameSend,
	verbs.OpSendImm:     frameSend,
	verbs.OpRead:        frameRead,
	verbs.OpCompareSwap: frameCompareSwap,
	verbs.OpFetchAdd:    frameFetchAdd,
}

// fill copies what goes with a fragment, and reports whether the memory of the
// request was accessible.
func (c *shmConn) fill(dst []byte, w *wqe) bool {
	switch {
	case len(dst) == 0:
		return true
	case w.op == verbs.OpCompareSwap:
		binary.BigEndian.PutUint64(dst, w.swap)
		binary.BigEndian.PutUint64(dst[8:], w.compare)
		return true
	case w.op == verbs.OpFetchAdd:
		binary.BigEndian.PutUint64(dst, w.compare)
		binary.BigEndian.PutUint64(dst[8:], 0)
		return true
	}
	return c.q.gather(dst, w, w.sent)
}

// resend: see path. The request still lies in its slot; the peer is told to try
// it again.
func (c *shmConn) resend() {
	c.own.resend.Add(1)
	c.wake(wakeSlots)
}

// collect: see path.
func (c *shmConn) takeAcks() bool {
	c.updatePeerTimer()
	ack := c.peer.ack.Load()
	if ack == c.lastAck || !c.isServing() {
		return false
	}
	// Responses were published before the acknowledgement that follows them.
	if c.q.reads > 0 {
		c.takeResponses()
	}
	head, syndrome := uint32(ack), uint8(ack>>32)
	progress := uint64(head - uint32(c.released))
	if progress > c.seq-c.released || !c.requestsOut.free(head) {
		c.protocolError()
		return true
	}
	negative := ack>>40 != c.lastAck>>40
	c.lastAck = ack
	c.released += progress
	c.q.acknowledged(c.released)
	if negative && c.isServing() {
		c.takeNAK(syndrome)
	}
	return true
}

// refused takes a negative answer. There is none without a request.
func (c *shmConn) takeNAK(syndrome uint8) {
	code := syndrome & aethCode
	switch {
	case !c.q.sq.outstanding():
		c.protocolError()
	case syndrome&^aethCode == aethRNR:
		c.q.onRNR(code)
	case syndrome&^aethCode == aethNAK && code >= nakInvalidRequest && code <= nakOperation:
		c.q.onNAK(outcomeInvalidRequest + outcome(code-nakInvalidRequest))
	default:
		c.protocolError()
	}
}

// takeResponses takes the data that answers READs and atomics.
func (c *shmConn) takeResponses() bool {
	work := false
	var r inboundRequest
	for c.q.reads > 0 && c.isServing() {
		more, ok := c.responsesIn.peek(&r)
		if !more {
			break
		}
		work = true
		if ok = ok && (r.op == frameReadData || r.op == frameAtomicResult); ok {
			ok = c.q.response(r.op, r.payload, r.last())
		}
		if !ok {
			c.protocolError()
			return true
		}
		c.responsesIn.advance(&r.frame)
	}
	if work {
		c.own.responses.Store(c.responsesIn.head)
		c.wake(wakeSlots)
	}
	return work
}
