//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the sending half of the local path: it publishes requests, and processes
// acknowledgements and responses.

// transmit implements path. It publishes slots until the send queue is empty or the ring
// is full.
func (c *shmConn) transmit() {
	// A connection that sends has to be polled for acknowledgements. While it was
	// parked, this side perhaps asked the peer to ring the doorbell for new slots only.
	c.shard.polls.activate(c)
	for w := c.q.nextToSend(); w != nil; w = c.q.nextToSend() {
		if !c.send(w) {
			break
		}
	}
	c.requestsOut.PublishFirst()
	c.wakePeer()
}

// sendInline implements path. The first message after a call of wakePeer is published at
// once, because the peer may be waiting for it. The messages after it are published
// together.
func (c *shmConn) sendInline(flags verbs.SendFlags, data []byte) (seq uint64, ok bool) {
	if c.end.provisional && c.peer.State.Load() != shm.SideActive {
		// As long as no peer has taken the other end, the queue pair may have to send its
		// requests again; see rebind.
		return 0, false
	}
	var f fragment.Flags
	if flags&verbs.SendSignaled != 0 {
		f = shm.FlagAckReq
	}
	if flags&verbs.SendSolicited != 0 {
		f |= fragment.Solicited
	}
	if !c.requestsOut.PutSend(data, f) && (!c.freeRequests() || !c.requestsOut.PutSend(data, f)) {
		return 0, false
	}
	if !c.wakeDue || c.requestsOut.Unpublished == publishEvery {
		c.requestsOut.PublishFirst()
	}
	c.wakeDue = true
	c.sent.seq++
	return c.sent.seq - 1, true
}

// freeRequests is called when the ring of requests is full. It processes the
// acknowledgements that have arrived, which frees the acknowledged slots. It returns
// false if none have arrived, or if they have moved the queue pair to the error state.
func (c *shmConn) freeRequests() bool { return c.takeAcks() && c.isServing() }

// publishEvery is how many slots are published together when many are sent. Publishing
// costs about as much as writing several slots, but the peer should begin with the first
// slot before the last one is written. The number is arbitrary.
const publishEvery = 8

// wakePeer wakes the peer if it has asked for wake-ups, once for all slots that were
// published since the last call.
func (c *shmConn) wakePeer() {
	if c.wakeDue {
		c.wakeDue = false
		c.wake(shm.WakeSlots)
	}
}

// send publishes the fragments of a request until the ring is full. It reports whether
// all of them were published.
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
		// The peer polls the cache line of the slot. From the first write to the slot
		// until the slot is published, each access of the peer may move this line to the
		// peer's processor and back. So nothing else is done in this time.
		if !c.fill(dst, w) {
			// The memory region was closed after the request was checked.
			c.q.failRequest(w, verbs.StatusLocProtErr)
			return false
		}
		c.requestsOut.Put(&f)
		if inArea || c.requestsOut.Unpublished == publishEvery {
			// The fragment is published now, so that the peer can read it while this
			// side writes the next one.
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

// payloadLeft returns how many bytes of the request are still to be sent.
func (c *shmConn) payloadLeft(w *wqe) uint32 {
	switch {
	case w.op == verbs.OpRead:
		return 0
	case w.op.Atomic():
		return fragment.AtomicOperands
	}
	return w.total - w.shm.sent
}

// reserveRequest reserves a slot in the ring of requests. The result dst is memory for a
// payload of up to want bytes; see shm.Producer.Reserve, which has the same results. If
// the ring is full, reserveRequest calls freeRequests, and tries once more. It returns
// false if the ring is still full, or if the queue pair is now in the error state.
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

// describeFragment sets f to the header of the next fragment of a request. The parameter
// length is the number of payload bytes of the fragment.
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

// frameOf maps the opcode of a request to the operation that is written to the slots of
// the request.
var frameOf = [...]fragment.Op{
	verbs.OpWrite:       fragment.Write,
	verbs.OpWriteImm:    fragment.Write,
	verbs.OpSend:        fragment.Send,
	verbs.OpSendImm:     fragment.Send,
	verbs.OpRead:        fragment.Read,
	verbs.OpCompareSwap: fragment.CompareSwap,
	verbs.OpFetchAdd:    fragment.FetchAdd,
}

// fill copies the payload of a fragment to dst. It returns false if the memory of the
// request is not accessible.
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

// resend implements path. The slot of the request is not freed yet, so the request need
// not be written again. resend increments the counter Resend in shared memory, and the
// peer then executes the slot again.
func (c *shmConn) resend() {
	c.own.Resend.Add(1)
	c.wake(shm.WakeSlots)
}

// takeAcks implements path. It reads the last acknowledgement that the peer has stored
// in the shared memory, and frees the acknowledged slots.
func (c *shmConn) takeAcks() bool {
	c.updatePeerTimer()
	ack := shm.Ack(c.peer.Ack.Load())
	if ack == c.sent.lastAck || !c.isServing() {
		return false
	}
	// The peer publishes the response of a request before it acknowledges the request.
	// So the responses of all requests that ack acknowledges are in the ring.
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

// acked implements path. It returns the number of slots that the peer has acknowledged.
func (c *shmConn) acked() uint64 { return c.sent.acked }

// takeNAK processes a NAK or RNR NAK. It is a protocol error if no request is
// outstanding.
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

// takeResponses processes the responses of READs and atomics that have arrived, and
// reports whether there were any.
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
