//go:build linux

package shmpath

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the requester's half of a local connection.

// Transmit implements qp.Path.
func (c *Conn) Transmit() {
	// From now on this side polls for acknowledgements. The peer may not ring the doorbell
	// for them.
	c.p.activate()
	if c.state == peerUnknown {
		// The ring may have a slot in which the peer says that it is ready.
		c.p.receive()
	}
	if len(c.p.regions.byKey) > 0 && c.q.Outstanding() {
		// This side can execute a request itself in mapped memory of the peer, but only if
		// no earlier request is outstanding.
		c.p.takeAcks()
		c.confirm(c.Acked())
	}
	c.sendRequests()
	c.p.flush()
}

// send sends what has waited for room. Responses are sent before requests.
func (c *Conn) send() {
	if c.serving && c.sendResponses() {
		c.confirm(c.Acked())
		c.sendRequests()
	}
}

// sendRequests sends requests until the send queue is empty or the ring is full.
func (c *Conn) sendRequests() {
	if c.state != peerReady || c.p.state != sharingOpen {
		c.holdRequests()
		return
	}
	for w := c.q.NextToSend(); w != nil; w = c.q.NextToSend() {
		if w.Op != verbs.OpSend {
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
			c.askFor(w.Key)
		}
	}
	if (c.q.TakeLocalWait() || c.q.Drains()) && c.q.Outstanding() {
		c.p.sent.awaited.push(c.p.sent.seq-1, c)
	}
	c.awaitAnswer()
}

// holdRequests is called instead of sendRequests if the peer does not execute requests.
// It sends nothing, but marks the next request as begun, so that the wait for the peer
// has an end.
func (c *Conn) holdRequests() {
	c.q.MarkNextBegun()
	c.awaitAnswer()
}

// SendInline implements qp.Path. It publishes the first message after a flush at once. Later
// messages are published in groups; see publishEvery.
func (c *Conn) SendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool) {
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
func (c *Conn) sendRequest(w *qp.WQE) bool {
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
			c.q.FailRequest(w, verbs.StatusLocProtErr)
			return false
		}
		c.p.put(&s)
		c.q.MarkBegun(w)
		w.Local.Sent += uint32(len(dst))
		if s.Flags&fragment.Last != 0 {
			c.q.MarkSent(w, c.p.sent.seq-1)
			if s.Flags&shm.FlagAckReq != 0 {
				c.p.sent.awaited.push(c.p.sent.seq-1, c)
			}
			return true
		}
	}
}

// payloadLeft returns how many payload bytes are still to be sent.
func (c *Conn) payloadLeft(w *qp.WQE) uint32 {
	switch {
	case w.Op == verbs.OpRead:
		return 0
	case w.Op.Atomic():
		return fragment.AtomicOperands
	}
	return w.Total - w.Local.Sent
}

// describeFragment sets f to the header of the next fragment. The parameter length is
// the number of payload bytes in the fragment.
func (c *Conn) describeFragment(f *fragment.Fragment, w *qp.WQE, length uint32) {
	f.Op, f.Flags, f.Length = frameOf[w.Op], 0, length
	f.Addr, f.Key, f.Total = w.Addr, w.Key, w.Total
	if w.Local.Sent == 0 {
		f.Flags = fragment.First
	}
	if w.ExpectsResponse() {
		f.Flags |= fragment.Last
		return
	}
	if w.Local.Sent+length == w.Total {
		f.Flags |= fragment.Last
		if c.q.Signaled(w) {
			f.Flags |= shm.FlagAckReq
		}
		switch w.Op {
		case verbs.OpSendImm, verbs.OpWriteImm:
			f.Flags |= fragment.Imm
			f.Imm = w.Imm
		case verbs.OpSendInv:
			f.Imm = w.Key
		}
		if w.Flags&verbs.SendSolicited != 0 {
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
func (c *Conn) fill(dst []byte, w *qp.WQE) bool {
	switch {
	case len(dst) == 0:
		return true
	case w.Op == verbs.OpCompareSwap:
		binary.BigEndian.PutUint64(dst, w.Swap)
		binary.BigEndian.PutUint64(dst[8:], w.Compare)
		return true
	case w.Op == verbs.OpFetchAdd:
		binary.BigEndian.PutUint64(dst, w.Compare)
		binary.BigEndian.PutUint64(dst[8:], 0)
		return true
	}
	if w.Flags&verbs.SendInline == 0 && c.p.out.Uncached(len(dst)) {
		return c.q.GatherUncached(dst, w, w.Local.Sent)
	}
	return c.q.Gather(dst, w, w.Local.Sent)
}

// TakeAcks implements qp.Path. It completes the requests that the peer has executed.
func (c *Conn) TakeAcks() bool {
	// Notices come first, because they say which requests were not executed.
	work := c.p.receive()
	work = c.p.takeAcks() || work
	c.confirm(c.Acked())
	return work
}

// Acked implements qp.Path.
func (c *Conn) Acked() uint64 {
	if c.state == peerStopped {
		return max(c.stoppedAt, c.responded)
	}
	return max(c.p.sent.executed, c.responded)
}

// confirm completes the requests whose slots are before the position seq.
func (c *Conn) confirm(seq uint64) {
	if c.serving {
		c.q.RequestsAcknowledged(seq)
	}
}

// continueAfterAcks is called when the peer has executed the requests for which an entry
// in sent.awaited waits. If a READ has waited for these requests, continueAfterAcks sends
// the READ and later requests; see waitsForOutstanding.
func (c *Conn) continueAfterAcks() {
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
func (c *Conn) onReady(to shm.Dest) {
	if c.state == peerUnknown {
		c.state, c.dest = peerReady, to
		c.sendRequests()
	}
}

// onStopped is called when the peer's queue pair has stopped. The peer executes no slot
// at the position seq or later.
func (c *Conn) onStopped(seq uint64) {
	if c.state == peerStopped {
		return
	}
	c.confirm(seq)
	c.state, c.stoppedAt = peerStopped, seq
	c.awaitAnswer()
}

// onRefused processes a NAK or RNR NAK for the request in the slot at the position seq.
func (c *Conn) onRefused(seq uint64, nak shm.NAK) {
	c.confirm(seq)
	timer, rnr := nak.RNRTimer()
	failure, failed := nak.Failure()
	switch {
	case !c.q.IsServing():
	case !c.q.Outstanding():
		c.protocolError()
	case rnr && c.q.RewindTo(seq):
		c.dest = c.dest.Next()
		c.q.OnRNR(timer)
	case failed:
		c.q.OnNAK(failureOutcomes[failure])
	default:
		c.protocolError()
	}
}

// takeResponse processes data of the response to a READ or an atomic.
func (c *Conn) takeResponse(s *shm.Slot) {
	if !c.q.IsServing() || c.state != peerReady {
		return
	}
	w := c.q.ExpectedResponse()
	if w == nil || w.LastSeq == qp.Unsent {
		c.protocolError()
		return
	}
	if s.Last() {
		c.responded = w.LastSeq
	}
	switch {
	case !c.q.Response(s.Op, s.Payload, s.Last()):
		c.protocolError()
	case c.q.HasUnsent() && c.q.IsServing():
		// A request may wait for this response, because of a fence or of MaxRdAtomic.
		c.sendRequests()
	}
}

// protocolError fails the queue pair after an invalid value in shared memory.
func (c *Conn) protocolError() {
	c.q.CountViolation()
	c.q.OnInvalidMemory()
}
