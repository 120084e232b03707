//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the sending half of the local path.

// transmit implements path.
func (c *shmConn) transmit() {
	// The connection has to be polled for acknowledgements. Perhaps this side has asked
	// the peer to ring for new slots, and not for acknowledgements.
	c.shard.polls.activate(c)
	for w := c.q.nextToSend(); w != nil; w = c.q.nextToSend() {
		if !c.send(w) {
			break
		}
	}
	c.requestsOut.PublishFirst()
	c.wakePeer()
}

// sendInline implements path. The first message after wakePeer is published at once, and
// the next ones together.
func (c *shmConn) sendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool) {
	if c.end.provisional && c.peer.State.Load() != shm.SideActive {
		// Until a peer has taken the other end, requests may have to be sent again; see
		// rebind.
		return 0, false
	}
	var f fragment.Flags
	if flags&verbs.SendSignaled != 0 {
		f = shm.FlagAckReq
	}
	if flags&verbs.SendSolicited != 0 {
		f |= fragment.Solicited
	}
	if len(data) > shm.SlotPayload || !c.requestsOut.PutSend(data, f) && (!c.freeRequests() || !c.requestsOut.PutSend(data, f)) {
		return 0, false
	}
	if !c.wakeDue || c.requestsOut.Unpublished == publishEvery {
		c.requestsOut.PublishFirst()
	}
	c.wakeDue = true
	c.sent.seq++
	return c.sent.seq - 1, true
}

// freeRequests frees the acknowledged slots of a full ring. It returns false if there
// were none, or the queue pair has failed.
func (c *shmConn) freeRequests() bool { return c.takeAcks() && c.isServing() }

// publishEvery is how many slots are published together. Publishing is expensive, but
// the peer should begin early. Arbitrary.
const publishEvery = 8

// wakePeer publishes all slots, and wakes the peer once for all slots published since the
// last call.
func (c *shmConn) wakePeer() {
	if c.wakeDue {
		c.wakeDue = false
		c.requestsOut.PublishFirst()
		c.wake(shm.WakeSlots)
	}
}

// send publishes the fragments of a request. It returns false if the ring is full.
func (c *shmConn) send(w *wqe) bool {
	var f fragment.Fragment
	for {
		dst, inArea, ok := c.reserveRequest(c.payloadLeft(w))
		if !ok {
			return false
		}
		c.describeFragment(&f, w, uint32(len(dst)))
		if inArea {
			f.Flags |= shm.FlagArea
		}
		// The peer polls the slot's cache line. While this side writes the slot, the
		// line may move to the peer's processor and back, so the slot is written
		// quickly. The header f was prepared before.
		if !c.fill(dst, w) {
			// The memory region was closed after the request was checked.
			c.q.failRequest(w, verbs.StatusLocProtErr)
			return false
		}
		c.requestsOut.Put(&f)
		if inArea || c.requestsOut.Unpublished == publishEvery {
			// The peer can read this fragment while the next one is written.
			c.requestsOut.PublishFirst()
		}
		c.sent.seq++
		c.wakeDue = true
		c.q.markBegun(w)
		w.shm.sent += uint32(len(dst))
		if f.Flags&fragment.Last != 0 {
			c.q.markSent(w, c.sent.seq-1)
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

// reserveRequest reserves a slot in the ring of requests; see shm.Producer.Reserve. It
// returns false if the ring stays full or the queue pair has failed.
func (c *shmConn) reserveRequest(want uint32) (dst []byte, inArea, ok bool) {
	dst, inArea, ok = c.requestsOut.Reserve(want)
	if ok {
		return dst, inArea, ok
	}
	if !c.freeRequests() {
		return nil, false, false
	}
	return c.requestsOut.Reserve(want)
}

// describeFragment sets f to the header of the next fragment. The parameter length is
// the size of its payload.
func (c *shmConn) describeFragment(f *fragment.Fragment, w *wqe, length uint32) {
	f.Op, f.Flags, f.Length = frameOf[w.op], 0, length
	f.Addr, f.Key, f.Total = w.addr, w.key, w.total
	if w.shm.sent == 0 {
		f.Flags = fragment.First
	}
	if c.q.signaled(w) {
		f.Flags |= shm.FlagAckReq
	}
	if w.expectsResponse() {
		f.Flags |= fragment.Last
		return
	}
	if w.shm.sent+length == w.total {
		f.Flags |= fragment.Last
		if w.op == verbs.OpSendImm || w.op == verbs.OpWriteImm {
			f.Flags |= fragment.Imm
			f.Imm = w.imm
		}
		if w.flags&verbs.SendSolicited != 0 {
			f.Flags |= fragment.Solicited
		}
	}
}

// frameOf maps a request's opcode to the operation that is written into a slot.
var frameOf = [...]fragment.Op{
	verbs.OpWrite:       fragment.Write,
	verbs.OpWriteImm:    fragment.Write,
	verbs.OpSend:        fragment.Send,
	verbs.OpSendImm:     fragment.Send,
	verbs.OpRead:        fragment.Read,
	verbs.OpCompareSwap: fragment.CompareSwap,
	verbs.OpFetchAdd:    fragment.FetchAdd,
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
	return c.q.gather(dst, w, w.shm.sent)
}

// resend implements path. The request is still in its slot. The counter Resend asks the
// peer to execute it again.
func (c *shmConn) resend() {
	c.own.Resend.Add(1)
	c.wake(shm.WakeSlots)
}

// takeAcks implements path. It frees the acknowledged slots.
func (c *shmConn) takeAcks() bool {
	c.updatePeerTimer()
	ack := shm.Ack(c.peer.Ack.Load())
	if ack == c.sent.lastAck || !c.isServing() {
		return false
	}
	// The peer publishes a response before its acknowledgement. So these responses are
	// in the ring.
	if c.q.awaitsResponse() {
		c.takeResponses()
	}
	progress, nak, ok := c.sent.acknowledge(ack)
	if !ok || !c.requestsOut.Free(ack.Consumed()) {
		c.protocolError()
		return true
	}
	if progress {
		c.q.acknowledged(c.sent.acked)
	}
	if nak && c.isServing() {
		c.takeNAK(ack.NAK())
	}
	return true
}

// acked implements path.
func (c *shmConn) acked() uint64 { return c.sent.acked }

// takeNAK processes a NAK or RNR NAK for an outstanding request.
func (c *shmConn) takeNAK(nak shm.NAK) {
	timer, rnr := nak.RNRTimer()
	failure, failed := nak.Failure()
	switch {
	case !c.q.outstanding():
		c.protocolError()
	case rnr:
		c.q.onRNR(timer)
	case failed:
		c.q.onNAK(failureOutcomes[failure])
	default:
		c.protocolError()
	}
}

// takeResponses processes the responses that have arrived, and returns false if there
// were none.
func (c *shmConn) takeResponses() bool {
	work := false
	var r fragment.Fragment
	for c.q.awaitsResponse() && c.isServing() {
		more, ok := c.responsesIn.Peek(&r)
		if !more {
			break
		}
		work = true
		if ok = ok && (r.Op == fragment.ReadData || r.Op == fragment.AtomicResult); ok {
			ok = c.q.response(r.Op, r.Payload, r.Last())
		}
		if !ok {
			c.protocolError()
			return true
		}
		c.responsesIn.Advance(&r)
	}
	if work {
		c.own.Responses.Store(c.responsesIn.Head)
		c.wake(shm.WakeSlots)
	}
	return work
}
