//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the requester's half of a local connection.

// transmit implements path.
func (c *shmConn) transmit() {
	// From now on this side polls for acknowledgements. The peer may not ring the doorbell
	// for them.
	c.p.activate()
	if c.state == peerUnknown {
		// The ring may have a slot in which the peer says that it is ready.
		c.p.receive()
	}
	if len(c.p.regions.byKey) > 0 && c.q.outstanding() {
		// This side can execute a request itself in mapped memory of the peer, but only if
		// no earlier request is outstanding.
		c.p.takeAcks()
		c.confirm(c.acked())
	}
	c.sendRequests()
	c.p.flush()
}

// send sends what has waited for room. Responses are sent before requests.
func (c *shmConn) send() {
	if c.serving && c.sendResponses() {
		c.confirm(c.acked())
		c.sendRequests()
	}
}

// sendRequests sends requests until the send queue is empty or the ring is full.
func (c *shmConn) sendRequests() {
	if c.state != peerReady || c.p.state != sharingOpen {
		c.holdRequests()
		return
	}
	for w := c.q.nextToSend(); w != nil; w = c.q.nextToSend() {
		if w.op != verbs.OpSend {
			if memory := c.directMemory(w); memory != nil {
				if c.executeDirectly(w, memory) {
					continue
				}
				if c.waitsForOutstanding(w) {
					break
				}
			}
		}
		if !c.sendRequest(w) {
			break
		}
		if c.asks {
			c.askFor(w.key)
		}
	}
	if (c.q.takeLocalWait() || c.q.drains()) && c.q.outstanding() {
		c.p.sent.awaited.push(c.p.sent.seq-1, c)
	}
	c.awaitAnswer()
}

// holdRequests is called instead of sendRequests if the peer does not execute requests.
// It sends nothing, but marks the next request as begun, so that the wait for the peer
// has an end.
func (c *shmConn) holdRequests() {
	c.q.markNextBegun()
	c.awaitAnswer()
}

// sendInline implements path. It publishes the first message after a flush at once. Later
// messages are published in groups; see publishEvery.
func (c *shmConn) sendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool) {
	p := c.p
	if c.state != peerReady || p.state != sharingOpen || p.tooManyPending() {
		return 0, false
	}
	var f fragment.Flags
	if flags&verbs.SendSignaled != 0 {
		f = shm.FlagAckReq
	}
	if flags&verbs.SendSolicited != 0 {
		f |= fragment.Solicited
	}
	if len(data) > shm.SlotPayload || !p.out.PutSend(c.dest, data, f) && (!p.freeSlots() || !p.out.PutSend(c.dest, data, f)) {
		return 0, false
	}
	if !p.wakeDue || p.out.Unpublished == publishEvery {
		p.out.PublishFirst()
	}
	p.wakeDue = true
	p.sent.seq++
	if f&shm.FlagAckReq != 0 {
		p.sent.awaited.push(p.sent.seq-1, c)
	}
	return p.sent.seq - 1, true
}

// sendRequest sends the fragments of a request. It returns false if the ring is full or
// the request has failed.
func (c *shmConn) sendRequest(w *wqe) bool {
	s := shm.Slot{Dest: c.dest}
	for {
		dst, inArea, ok := c.p.reserveRequest(c.payloadLeft(w))
		if !ok {
			c.p.block(c)
			return false
		}
		c.describeFragment(&s.Fragment, w, uint32(len(dst)))
		if inArea {
			s.Flags |= shm.FlagArea
		}
		// The header s was prepared before, so that the slot is written quickly. The peer
		// reads the cache line of the slot all the time, and slow writing would move the line
		// between the processors several times.
		if !c.fill(dst, w) {
			// The memory region was closed after the request was checked.
			c.q.failRequest(w, verbs.StatusLocProtErr)
			return false
		}
		c.p.put(&s)
		c.q.markBegun(w)
		w.shm.sent += uint32(len(dst))
		if s.Flags&fragment.Last != 0 {
			c.q.markSent(w, c.p.sent.seq-1)
			if s.Flags&shm.FlagAckReq != 0 {
				c.p.sent.awaited.push(c.p.sent.seq-1, c)
			}
			return true
		}
	}
}

// payloadLeft returns how many payload bytes are still to be sent.
func (c *shmConn) payloadLeft(w *wqe) uint32 {
	switch {
	case w.op == verbs.OpRead:
		return 0
	case w.op.Atomic():
		return fragment.AtomicOperands
	}
	return w.total - w.shm.sent
}

// describeFragment sets f to the header of the next fragment. The parameter length is
// the number of payload bytes in the fragment.
func (c *shmConn) describeFragment(f *fragment.Fragment, w *wqe, length uint32) {
	f.Op, f.Flags, f.Length = frameOf[w.op], 0, length
	f.Addr, f.Key, f.Total = w.addr, w.key, w.total
	if w.shm.sent == 0 {
		f.Flags = fragment.First
	}
	if w.expectsResponse() {
		f.Flags |= fragment.Last
		return
	}
	if w.shm.sent+length == w.total {
		f.Flags |= fragment.Last
		if c.q.signaled(w) {
			f.Flags |= shm.FlagAckReq
		}
		switch w.op {
		case verbs.OpSendImm, verbs.OpWriteImm:
			f.Flags |= fragment.Imm
			f.Imm = w.imm
		case verbs.OpSendInv:
			f.Imm = w.key
		}
		if w.flags&verbs.SendSolicited != 0 {
			f.Flags |= fragment.Solicited
		}
	}
}

// frameOf maps the opcode of a request to the operation that is written in its slots.
var frameOf = [...]fragment.Op{
	verbs.OpWrite:       fragment.Write,
	verbs.OpWriteImm:    fragment.Write,
	verbs.OpSend:        fragment.Send,
	verbs.OpSendImm:     fragment.Send,
	verbs.OpRead:        fragment.Read,
	verbs.OpCompareSwap: fragment.CompareSwap,
	verbs.OpFetchAdd:    fragment.FetchAdd,
	verbs.OpSendInv:     fragment.SendInv,
}

// fill copies the payload of a fragment. It returns false if the memory is not
// accessible.
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
	if w.flags&verbs.SendInline == 0 && c.p.out.Uncached(len(dst)) {
		return c.q.gatherUncached(dst, w, w.shm.sent)
	}
	return c.q.gather(dst, w, w.shm.sent)
}

// takeAcks implements path. It completes the requests that the peer has executed.
func (c *shmConn) takeAcks() bool {
	// Notices come first, because they say which requests were not executed.
	work := c.p.receive()
	work = c.p.takeAcks() || work
	c.confirm(c.acked())
	return work
}

// acked implements path.
func (c *shmConn) acked() uint64 {
	if c.state == peerStopped {
		return max(c.stoppedAt, c.responded)
	}
	return max(c.p.sent.executed, c.responded)
}

// confirm completes the requests whose slots are before the position seq.
func (c *shmConn) confirm(seq uint64) {
	if c.serving {
		c.q.requestsAcknowledged(seq)
	}
}

// continueAfterAcks is called when the peer has executed the requests for which an entry
// in sent.awaited waits. If a READ has waited for these requests, continueAfterAcks sends
// the READ and later requests; see waitsForOutstanding.
func (c *shmConn) continueAfterAcks() {
	if c.awaitsAcks {
		c.awaitsAcks = false
		if c.serving {
			c.sendRequests()
			c.p.flush()
		}
	}
}

// onReady is called when the peer's queue pair is ready. It sets the destination of
// requests, and begins to send them.
func (c *shmConn) onReady(to shm.Dest) {
	if c.state == peerUnknown {
		c.state, c.dest = peerReady, to
		c.sendRequests()
	}
}

// onStopped is called when the peer's queue pair has stopped. The peer executes no slot
// at the position seq or later.
func (c *shmConn) onStopped(seq uint64) {
	if c.state == peerStopped {
		return
	}
	c.confirm(seq)
	c.state, c.stoppedAt = peerStopped, seq
	c.awaitAnswer()
}

// onRefused processes a NAK or RNR NAK for the request in the slot at the position seq.
func (c *shmConn) onRefused(seq uint64, nak shm.NAK) {
	c.confirm(seq)
	timer, rnr := nak.RNRTimer()
	failure, failed := nak.Failure()
	switch {
	case !c.q.isServing():
	case !c.q.outstanding():
		c.protocolError()
	case rnr && c.q.rewindTo(seq):
		c.dest = c.dest.Next()
		c.q.onRNR(timer)
	case failed:
		c.q.onNAK(failureOutcomes[failure])
	default:
		c.protocolError()
	}
}

// takeResponse processes data of the response to a READ or an atomic.
func (c *shmConn) takeResponse(s *shm.Slot) {
	if !c.q.isServing() || c.state != peerReady {
		return
	}
	w := c.q.expectedResponse()
	if w == nil || w.lastSeq == unsent {
		c.protocolError()
		return
	}
	if s.Last() {
		c.responded = w.lastSeq
	}
	switch {
	case !c.q.response(s.Op, s.Payload, s.Last()):
		c.protocolError()
	case c.q.hasUnsent() && c.q.isServing():
		// A request may wait for this response, because of a fence or of MaxRdAtomic.
		c.sendRequests()
	}
}

// protocolError fails the queue pair after an invalid value in shared memory.
func (c *shmConn) protocolError() {
	c.q.countViolation()
	c.q.onInvalidMemory()
}
