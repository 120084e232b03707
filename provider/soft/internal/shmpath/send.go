//go:build linux

package shmpath

import (
	"encoding/binary"
	"slices"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
		ask := false
		if w.Op != verbs.OpSend {
			var memory []byte
			if memory, ask = c.directMemory(w); memory != nil {
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
		if ask {
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

// SendInline implements qp.LocalPath. It publishes the first message after a flush at
// once. Later messages are published in groups; see publishEvery.
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
	if c.tap != nil {
		c.recordSent(&shm.Slot{Fragment: fragment.Fragment{Op: fragment.Send, Flags: f | fragment.First | fragment.Last}}, data)
	}
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
		if c.tap != nil {
			c.recordSent(&s, dst)
		}
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
	f.Op, f.Flags, f.Length = opOf[w.Op], 0, length
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

// opOf maps the opcode of a request to the operation that is written in its slots.
var opOf = [...]fragment.Op{
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

// TakeAcks implements qp.LocalPath. It completes the requests that the peer has executed.
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
	if c.tap != nil && (rnr || failed) && c.q.IsServing() && c.q.Outstanding() {
		c.tap.Refused(seq, syndromeOf(nak))
	}
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
	if c.tap != nil {
		c.tap.ResponseReceived(s.Payload, s.Last())
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

// reserveRequest reserves a slot for a request. It returns false if the ring is full or
// tooManyPending returns true.
func (p *peer) reserveRequest(want uint32) (dst []byte, inArea, ok bool) {
	if p.tooManyPending() {
		return nil, false, false
	}
	return p.reserve(want)
}

// tooManyPending reports whether the peer has consumed many slots without executing
// their requests. Without this limit, sent.awaited could grow without end.
func (p *peer) tooManyPending() bool {
	return p.sent.seq-p.sent.executed >= uint64(maxPending*p.out.Len())
}

// reserve reserves a slot; see shm.Producer.Reserve. If the ring is full, it first frees
// consumed slots.
func (p *peer) reserve(want uint32) (dst []byte, inArea, ok bool) {
	dst, inArea, ok = p.out.Reserve(want)
	if ok || !p.freeSlots() {
		return dst, inArea, ok
	}
	return p.out.Reserve(want)
}

// freeSlots frees consumed slots. It returns false if there are none.
func (p *peer) freeSlots() bool {
	ack := shm.Ack(p.peer.Ack.Load())
	if ack.Consumed() == p.out.Freed || p.state != sharingOpen {
		return false
	}
	if !p.out.Free(ack.Consumed()) {
		p.protocolError()
		return false
	}
	return true
}

// put fills the reserved slot. Slots are published in groups; see publishEvery.
func (p *peer) put(s *shm.Slot) {
	p.out.Put(s)
	p.sent.seq++
	p.wakeDue = true
	if s.Flags&shm.FlagArea != 0 || p.out.Unpublished == publishEvery {
		// The peer reads this slot while this side writes the next one.
		p.out.PublishFirst()
	}
}

// flush publishes all slots. It wakes the peer once for all slots since the last flush.
func (p *peer) flush() {
	if p.wakeDue {
		p.wakeDue = false
		p.out.PublishFirst()
		p.wake(shm.WakeSlots)
	}
}

// notify sends a notice, and returns its number. If the ring is full, the notice waits.
func (p *peer) notify(n notice) (number uint64) {
	if p.state != sharingOpen {
		return 0
	}
	p.activate() // Polling finds out when the ring has room.
	number = p.notices.push(n)
	p.sendNotices()
	p.flush()
	return number
}

// sendNotices sends the waiting notices. It returns false if the ring has no room for
// all of them. The peer must consume the notices before it uses the next
// acknowledgement.
func (p *peer) sendNotices() bool {
	before := p.out.Tail
	for p.notices.len() > 0 {
		if _, _, ok := p.reserve(0); !ok {
			break
		}
		n := p.notices.pop()
		p.put(&shm.Slot{Dest: n.to, Fragment: fragment.Fragment{Op: n.op, Imm: n.imm, Addr: uint64(n.value)}})
	}
	if p.out.Tail != before {
		p.out.PublishFirst()
		p.own.Refusals.Store(p.out.Tail)
		if p.notices.len()+p.unsettled == 0 && p.acks.executed != p.in.Head && !p.receiving {
			// Before these notices, slots with refused requests could not be acknowledged.
			p.acknowledge()
		}
	}
	return p.notices.len() == 0
}

// block adds a connection to those that wait for room in the ring.
func (p *peer) block(c *Conn) {
	if !c.blocked {
		c.blocked = true
		p.blocked.push(c)
	}
}

func (p *peer) unblock(c *Conn) {
	if !c.blocked {
		return
	}
	c.blocked = false
	p.blocked.remove(c)
}

// sendWaiting sends what has waited for room. The notices are first, and then the
// blocked connections have their turns.
func (p *peer) sendWaiting() {
	defer p.flush()
	if !p.sendNotices() {
		return
	}
	for n := p.blocked.len(); n > 0 && p.blocked.len() > 0; n-- {
		c := p.blocked.pop()
		c.blocked = false
		c.send()
		if c.blocked {
			return
		}
	}
}

// failureOutcomes has the outcome for each reason of a failure.
var failureOutcomes = [...]qp.Outcome{
	shm.InvalidRequest: qp.OutcomeInvalidRequest,
	shm.AccessError:    qp.OutcomeAccessError,
	shm.OperationError: qp.OutcomeOperationError,
}

// failureOf returns the reason that the peer gets for a failed request.
func failureOf(o qp.Outcome) shm.Failure { return shm.Failure(slices.Index(failureOutcomes[:], o)) }

// sentSlots has positions in the ring on which a shard sends. A position is the number of
// slots since the beginning.
type sentSlots struct {
	seq uint64 // number of slots filled
	// position before which the peer has executed or refused all requests
	executed uint64
	lastAck  shm.Ack // acknowledgement that was processed last
	// requests whose execution has to be reported, in the order of their slots
	awaited awaitedQueue
}

// position returns the position whose lower 32 bits are given. This is the first such
// position that is not before s.executed. The result ok is false if fewer slots than
// that were filled.
func (s *sentSlots) position(low uint32) (at uint64, ok bool) {
	at = s.executed + uint64(low-uint32(s.executed))
	return at, at <= s.seq
}

// An awaitedQueue is a queue of requests that wait for an acknowledgement.
type awaitedQueue struct {
	entries    []awaited // ring; its length is a power of two
	head, tail uint32    // positions of the first entry and after the last entry; they wrap
}

// An awaited entry belongs to a connection that waits until the slot seq is executed.
type awaited struct {
	seq uint64
	c   *Conn
}

func (q *awaitedQueue) empty() bool { return q.head == q.tail }

func (q *awaitedQueue) push(seq uint64, c *Conn) {
	if int(q.tail-q.head) == len(q.entries) {
		q.grow()
	}
	q.entries[q.tail&uint32(len(q.entries)-1)] = awaited{seq, c}
	q.tail++
}

func (q *awaitedQueue) grow() {
	grown := make([]awaited, max(16, 2*len(q.entries)))
	for i := q.head; i != q.tail; i++ {
		grown[i&uint32(len(grown)-1)] = q.entries[i&uint32(len(q.entries)-1)]
	}
	q.entries = grown
}

// pop removes the first entry and returns its connection. If the queue is empty, or if
// the slot of the first entry is not before the position executed, pop returns nil.
func (q *awaitedQueue) pop(executed uint64) *Conn {
	if q.empty() {
		return nil
	}
	first := &q.entries[q.head&uint32(len(q.entries)-1)]
	if first.seq >= executed {
		return nil
	}
	c := first.c
	first.c = nil
	q.head++
	return c
}
