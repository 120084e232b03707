//go:build linux

package rcpath

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// nakState is the state of the NAK for the expected packet.
type nakState uint8

const (
	// nakNone: there is no NAK for the expected packet. A connection begins in this
	// state, and returns to it when that packet arrives.
	nakNone nakState = iota
	// nakDue: the next call of shard.drive() sends a NAK or an RNR NAK. The state is
	// entered when a packet is missing or can not be executed.
	nakDue
	// nakSent: the NAK was sent. Packets that were in flight are dropped without another
	// NAK.
	nakSent
)

// nakOutcomes has the outcome for each NAK code of a failed request.
var nakOutcomes = [...]qp.Outcome{
	wire.NAKInvalidRequest:    qp.OutcomeInvalidRequest,
	wire.NAKRemoteAccess:      qp.OutcomeAccessError,
	wire.NAKRemoteOperational: qp.OutcomeOperationError,
}

// nakCode returns the NAK code of a failed request.
func nakCode(o qp.Outcome) wire.NAKCode { return wire.NAKCode(slices.Index(nakOutcomes[:], o)) }

// responder is the responder of a Conn. Its sequences count the peer's request
// packets. A READ takes one sequence for each packet of its response.
type responder struct {
	base      psn.Value // PSN of the peer's first request
	expected  uint64    // sequence of the next request packet to be executed
	dataEnd   uint64    // sequence after the last executed SEND or WRITE packet
	msn       psn.Value // message sequence number: number of complete messages
	resources respResources

	nakState nakState
	nak      wire.Syndrome // syndrome of the last NAK that was due
	gapPoll  uint32        // value of packets.Demux.Polls when the last gap was found
	// sequence of the first duplicate since the last new request, plus 1; 0 if there was
	// no duplicate
	duplicateEnd uint64
	fatal        qp.Outcome // outcome of the request that ends the queue pair, or qp.OutcomeAck
}

func (r *responder) init(attr *verbs.QPAttr) {
	r.base = psn.Value(attr.RQPSN)
	r.resources = newRespResources(int(attr.MaxDestRdAtomic))
}

// accepts returns the sequence of a request packet. It returns false if the sequence is
// negative, or an earlier request has failed.
func (r *responder) accepts(v psn.Value) (seq uint64, ok bool) {
	seq, ok = packets.NearestSeq(v, r.base, r.expected)
	return seq, ok && r.fatal == qp.OutcomeAck
}

// psn returns the PSN of a request packet.
func (r *responder) psn(seq uint64) psn.Value { return packets.PSNOf(r.base, seq) }

func (r *responder) onExpected() { r.nakState, r.duplicateEnd = nakNone, 0 }

// scheduleNAK records that a NAK or an RNR NAK for the expected packet has to be sent.
func (r *responder) scheduleNAK(s wire.Syndrome) { r.nak, r.nakState = s, nakDue }

// awaitsMissing reports whether a sequence error NAK is due and was not sent yet. The
// missing packet may still arrive.
func (r *responder) awaitsMissing() bool {
	return r.nakState == nakDue && r.nak == wire.NAK(wire.NAKSequence)
}

// fail schedules a fatal NAK. The queue pair fails after the NAK is sent.
func (r *responder) fail(o qp.Outcome) {
	r.fatal = o
	r.scheduleNAK(wire.NAK(nakCode(o)))
}

// executedData records that the expected packet of a SEND or WRITE was executed. The
// parameter ends is true for the last packet of a message.
func (r *responder) executedData(ends bool) {
	r.advance(1, ends)
	r.dataEnd = r.expected
}

// executedRead records the execution of the expected READ. The response has n packets.
func (r *responder) executedRead(memory qp.MemoryRange, n uint64) {
	res := r.addResource(n)
	res.source, res.unsent = memory, memory
}

// executedAtomic records the execution of the expected atomic.
func (r *responder) executedAtomic(old uint64) {
	res := r.addResource(1)
	res.atomic, res.result = true, old
}

// addResource adds the resource of the expected request. The response has n packets.
func (r *responder) addResource(n uint64) *respResource {
	res := r.resources.add()
	res.first, res.last = r.expected, r.expected+n-1
	res.start, res.next, res.end = res.first, res.first, res.last
	r.advance(n, true)
	return res
}

// advance records the execution of a packet of n sequences. The parameter ends is true
// for the last packet of a message.
func (r *responder) advance(n uint64, ends bool) {
	r.expected += n
	if ends {
		r.msn = r.msn.Add(1)
	}
}

// onDuplicate is called when an executed packet arrives again. It remembers the first
// such packet. If the peer then sends that packet once more, the response was probably
// lost, and onDuplicate returns true.
func (r *responder) onDuplicate(seq uint64) (again bool) {
	if r.duplicateEnd == 0 {
		r.duplicateEnd = seq + 1
		return false
	}
	return r.duplicateEnd == seq+1
}

// repeatAtomic makes the response of the atomic seq due again. It returns false if the
// response is not known.
func (r *responder) repeatAtomic(seq uint64) bool {
	res, index := r.resources.find(seq)
	if res == nil || !res.atomic {
		return false
	}
	r.resources.repeatFrom(index, seq, seq)
	return true
}

// repeatRead makes n packets of a READ's response due again, from the sequence seq on.
// The parameter memory must be the corresponding part of the memory of the first request.
// Otherwise, or if the READ is not known, repeatRead returns false.
func (r *responder) repeatRead(memory qp.MemoryRange, seq, n uint64, mtu uint32) bool {
	res, index := r.resources.find(seq)
	if res == nil || res.atomic {
		return false
	}
	offset := uint32(seq-res.first) * mtu
	if memory.Addr != res.source.Addr+uint64(offset) || memory.Key != res.source.Key || memory.Left > res.source.Left-offset {
		return false
	}
	res.unsent = memory
	r.resources.repeatFrom(index, seq, seq+n-1)
	return true
}

// responseSent records that the next packet of a response was sent. It reports whether
// this packet acknowledges all executed SENDs and WRITEs.
func (r *responder) responseSent(res *respResource) (acknowledges bool) {
	acknowledges = res.next >= r.dataEnd
	res.pending = res.next != res.end
	res.sent = res.sent || !res.pending && res.end == res.last
	res.next++
	return acknowledges
}

// receiveRequest processes a request packet (IBTA vol. 1, 9.7.4.1). The parameter at is the
// udp.Header.Time of the packet if the queue pair wants it, and else 0.
func (c *Conn) receiveRequest(p wire.Packet, at int64) {
	seq, ok := c.resp.accepts(p.BTH().PSN())
	switch {
	case !ok:
	case seq > c.resp.expected:
		c.onSequenceGap(p, seq, at)
	case seq < c.resp.expected:
		c.duplicate(p, seq)
	case c.resp.awaitsMissing():
		c.executeMissing(p, at)
	default:
		c.resp.onExpected()
		c.execute(p, at)
	}
}

// execute executes the expected request packet, or schedules a NAK or an RNR NAK.
func (c *Conn) execute(p wire.Packet, at int64) {
	op := p.Opcode()
	o := qp.OutcomeInvalidRequest
	switch {
	case !op.FitsPayload(len(p.Payload()), int(c.mtu)), p.RETH() != nil && p.RETH().Length() > qp.MaxMsgSize:
		o = c.q.OnInvalidRequest()
	case (op.Kind() == wire.KindRead || op.Kind() == wire.KindAtomic) && c.resp.resources.full():
		// The peer has too many READs and atomics outstanding (IBTA vol. 1, 9.7.4.1.5
		// and 9.7.5.2.3).
		o = c.q.OnInvalidRequest()
	case op.Kind() == wire.KindRead:
		o = c.executeRead(p)
	case op.Kind() == wire.KindAtomic:
		o = c.executeAtomic(p)
	case op.Kind() == wire.KindSend, op.Kind() == wire.KindWrite:
		o = c.executeData(p, at)
	}
	switch o {
	case qp.OutcomeAck:
	case qp.OutcomeRNR:
		c.q.Counts().RNRSent()
		c.resp.scheduleNAK(wire.RNRNAK(c.q.RNRTimer()))
		c.schedule()
	default:
		c.Abort(o)
	}
}

// AccessSource implements qp.ReliablePath. It returns the peer's IP address.
func (c *Conn) AccessSource() (access.Source, bool) { return access.RemoteSource(c.to.Remote), true }

// Abort implements qp.ReliablePath. The next call of shard.drive() sends a NAK and calls
// RequestFailed.
func (c *Conn) Abort(o qp.Outcome) {
	c.resp.fail(o)
	c.schedule()
}

// executeData executes a packet of a SEND or WRITE.
func (c *Conn) executeData(p wire.Packet, at int64) qp.Outcome {
	bth, op := p.BTH(), p.Opcode()
	if op == wire.SendOnly {
		if wc := c.q.DeliverInline(p.Payload(), bth.Solicited()); wc != nil {
			wc.Time = at
			c.executedData(bth, true)
			return qp.OutcomeAck
		}
	}
	r := fragment.Fragment{Op: fragment.Send, Flags: dataFlags(op, bth.Solicited()), Payload: p.Payload(), Time: at}
	if op.Kind() == wire.KindWrite {
		r.Op = fragment.Write
	}
	if h := p.RETH(); h != nil {
		r.Addr, r.Key, r.Total = h.Addr(), h.RKey(), h.Length()
	}
	if h := p.ImmDt(); h != nil {
		r.Flags, r.Imm = r.Flags|fragment.Imm, h.Value()
	}
	if h := p.IETH(); h != nil {
		r.Op, r.Imm = fragment.SendInv, h.RKey()
	}
	if o := c.q.Deliver(&r); o != qp.OutcomeAck {
		return o
	}
	c.executedData(bth, r.Last())
	return qp.OutcomeAck
}

// executedData is called when a packet of a SEND or WRITE was executed.
func (c *Conn) executedData(bth *wire.BTH, last bool) {
	c.resp.executedData(last)
	if bth.AckReq() {
		c.acks.schedule()
		c.demux.Ask()
		c.schedule()
	}
}

// dataFlags returns the fragment flags of a SEND or WRITE packet, without fragment.Imm.
func dataFlags(op wire.Opcode, solicited bool) (flags fragment.Flags) {
	if op.First() {
		flags |= fragment.First
	}
	if op.Last() {
		flags |= fragment.Last
	}
	if solicited {
		flags |= fragment.Solicited
	}
	return flags
}

// executeRead checks the memory of a READ, and makes the response due.
func (c *Conn) executeRead(p wire.Packet) qp.Outcome {
	h := p.RETH()
	r := fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Addr: h.Addr(), Key: h.RKey(), Total: h.Length()}
	memory, o := c.q.DeliverRead(&r)
	if o != qp.OutcomeAck {
		return o
	}
	c.resp.executedRead(memory, c.packetCount(r.Total))
	c.schedule()
	return qp.OutcomeAck
}

// executeAtomic executes an atomic, and makes its response due.
func (c *Conn) executeAtomic(p wire.Packet) qp.Outcome {
	h := p.AtomicETH()
	const operands = wire.AtomicETHSize - fragment.AtomicOperands
	r := fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last, Addr: h.Addr(), Key: h.RKey(), Payload: h[operands:]}
	if p.Opcode() == wire.CompareSwap {
		r.Op = fragment.CompareSwap
	}
	old, o := c.q.DeliverAtomic(&r)
	if o != qp.OutcomeAck {
		return o
	}
	c.resp.executedAtomic(old)
	c.schedule()
	return qp.OutcomeAck
}

// duplicate answers a request that was already executed (IBTA vol. 1, 9.7.4.2). A READ
// gets the present contents of the memory, and an atomic its first result.
func (c *Conn) duplicate(p wire.Packet, seq uint64) {
	c.q.Counts().Inc(counters.DuplicateRequest)
	if c.resp.onDuplicate(seq) {
		// The repeated response did not arrive. Perhaps the network path has changed.
		c.demux.OnTimeout(&c.to)
	}
	repeated := false
	switch p.Opcode().Kind() {
	case wire.KindSend, wire.KindWrite:
		if seq < c.resp.dataEnd {
			c.ackNow()
		}
	case wire.KindRead:
		h := p.RETH()
		memory := qp.MemoryRange{Addr: h.Addr(), Key: h.RKey(), Left: h.Length()}
		repeated = c.resp.repeatRead(memory, seq, c.packetCount(memory.Left), c.mtu)
	case wire.KindAtomic:
		repeated = c.resp.repeatAtomic(seq)
	}
	if repeated {
		c.schedule()
	}
}

// ackNow makes an acknowledgement due. The acknowledgement is sent without a delay.
func (c *Conn) ackNow() {
	c.acks.scheduleNow()
	c.schedule()
}

// respondBudget is how many response packets a connection sends in one call of
// shard.drive(). More could overflow the peer's socket or delay other connections. With
// half as many, READs of 1 MiB were 5 to 10 % slower.
const respondBudget = 64

// sendResponses sends the due responses in order. After them it sends the due NAK or
// acknowledgement. It returns false if it has to be called again.
func (c *Conn) sendResponses() (done bool) {
	for n := 0; c.q.IsServing(); n++ {
		res := c.resp.resources.nextPending()
		if res == nil {
			break
		}
		if n == respondBudget || !c.sendResponse(res) {
			return false
		}
	}
	if c.resp.nakState == nakDue {
		if !c.awaitsPoll() {
			return c.sendNAK(c.resp.expected)
		}
		if c.acks.due() && !c.delaysAck() {
			c.sendAck()
		}
		return false
	}
	return !c.acks.due() || !c.delaysAck() && c.sendAck()
}

// delaysAck reports whether the due acknowledgement is delayed in this call of
// shard.drive(). It is sent at once if the owner's turns are long, the owner may sleep,
// or the peer needs credits.
func (c *Conn) delaysAck() bool {
	return c.acks.delay(c.resp.dataEnd) && c.demux.MayDelayAcks() && c.credits.enough(c.resp.msn)
}

// sendResponse sends the next packet of a response, or a NAK if the memory is not
// accessible. A response that is repeated ends without a NAK. It returns false if the
// packets.Conn has no room.
func (c *Conn) sendResponse(res *respResource) bool {
	if res.atomic {
		return c.sendAtomicResponse(res)
	}
	length := min(res.unsent.Left, c.mtu)
	p, ok := c.newPacket(responseOpcode(res), int(length), c.resp.psn(res.next))
	if !ok {
		return false
	}
	// The memory region may have been closed after the READ was checked.
	if o := c.q.ReadInto(p.Payload(), &res.unsent); o != qp.OutcomeAck {
		if res.sent {
			// The peer has requested the READ again, perhaps just before the response arrived
			// that it waited for. It may then have said that it needs the memory no more.
			res.pending = false
			return true
		}
		c.resp.fail(o)
		return c.sendNAK(res.next)
	}
	if h := p.AETH(); h != nil {
		h.Set(c.ack(), c.resp.msn)
	}
	c.push(p)
	c.responseSent(res)
	return true
}

// responseOpcode returns the opcode of the next packet of a READ's response. Repeated
// parts begin with FIRST or ONLY too.
func responseOpcode(res *respResource) wire.Opcode {
	switch first, last := res.next == res.start, res.next == res.end; {
	case first && last:
		return wire.ReadResponseOnly
	case first:
		return wire.ReadResponseFirst
	case last:
		return wire.ReadResponseLast
	}
	return wire.ReadResponseMiddle
}

// sendAtomicResponse sends the response of an atomic. It returns false if the packets.Conn
// has no room.
func (c *Conn) sendAtomicResponse(res *respResource) bool {
	p, ok := c.newPacket(wire.AtomicAcknowledge, 0, c.resp.psn(res.next))
	if !ok {
		return false
	}
	p.AETH().Set(c.ack(), c.resp.msn)
	p.AtomicAckETH().Set(res.result)
	c.push(p)
	c.responseSent(res)
	return true
}

// responseSent records that the next packet of a response was sent.
func (c *Conn) responseSent(res *respResource) {
	if c.resp.responseSent(res) {
		c.acks.sent(c.resp.dataEnd)
	}
}

// sendAck acknowledges all executed requests up to the last SEND or WRITE packet. It
// returns false if the packets.Conn has no room.
func (c *Conn) sendAck() bool {
	sent := c.sendAETH(c.ack(), c.resp.dataEnd-1)
	if sent {
		c.acks.sent(c.resp.dataEnd)
	}
	return sent
}

// sendNAK sends the scheduled NAK for the packet seq. It returns false if the packets.Conn
// has no room. After a fatal NAK the queue pair fails.
func (c *Conn) sendNAK(seq uint64) bool {
	if !c.sendAETH(c.resp.nak, seq) {
		return false
	}
	if c.resp.awaitsMissing() {
		c.q.Counts().Inc(counters.OutOfSeqRequest)
		c.all.held.drop(c)
	}
	c.resp.nakState = nakSent
	c.acks.cancel()
	if c.resp.fatal != qp.OutcomeAck {
		c.q.RequestFailed(c.resp.fatal)
	}
	return true
}

// sendAETH sends an acknowledgement packet for the packet seq.
func (c *Conn) sendAETH(s wire.Syndrome, seq uint64) bool {
	p, ok := c.newPacket(wire.Acknowledge, 0, c.resp.psn(seq))
	if !ok {
		return false
	}
	p.AETH().Set(s, c.resp.msn)
	c.push(p)
	return true
}

// A respResource is a READ or atomic that was executed. It is kept because the peer may
// request its response again.
type respResource struct {
	atomic bool
	// sequences of the first and the last response packet
	first, last uint64
	source      qp.MemoryRange // for a READ: the memory that was read
	result      uint64         // for an atomic: the value of the memory before the atomic

	pending bool   // true while a part of the response has to be sent
	sent    bool   // true if the whole response was sent at least once
	start   uint64 // sequence of the first packet of the pending response
	next    uint64 // sequence of the next packet of the pending response
	end     uint64 // sequence of the last packet of the pending response
	// for a READ: part of the memory that was not sent yet
	unsent qp.MemoryRange
}

// respResources has the resources of the last READs and atomics (IBTA vol. 1, 9.7.4.2).
// The first resource of a connection has the index 0. Indexes do not wrap.
type respResources struct {
	entries      []respResource
	added        uint64 // number of resources added so far
	firstPending uint64 // no resource with an index below firstPending is pending
}

func newRespResources(size int) respResources {
	return respResources{entries: make([]respResource, max(size, 1))}
}

// add adds a pending resource. If no entry is free, the new resource replaces the oldest
// resource. The caller must have checked with full() that the oldest response was sent.
func (r *respResources) add() *respResource {
	res := r.at(r.added)
	r.added++
	r.firstPending = max(r.firstPending, r.oldest())
	*res = respResource{pending: true}
	return res
}

// full reports whether the peer has reached its limit of outstanding READs and atomics. A
// READ or atomic is outstanding until its whole response was sent.
func (r *respResources) full() bool {
	return r.added >= uint64(len(r.entries)) && !r.at(r.oldest()).sent
}

// find returns the resource whose response has the packet seq, and its index. If there
// is none, find returns nil.
func (r *respResources) find(seq uint64) (res *respResource, index uint64) {
	for i := r.added; i > r.oldest(); i-- {
		if res := r.at(i - 1); res.first <= seq && seq <= res.last {
			return res, i - 1
		}
	}
	return nil, 0
}

// repeatFrom makes the response packets from start to end pending again.
func (r *respResources) repeatFrom(index, start, end uint64) {
	res := r.at(index)
	res.pending, res.start, res.next, res.end = true, start, start, end
	r.firstPending = min(r.firstPending, index)
}

// nextPending returns the oldest resource with a pending response, or nil.
func (r *respResources) nextPending() *respResource {
	for ; r.firstPending < r.added; r.firstPending++ {
		if res := r.at(r.firstPending); res.pending {
			return res
		}
	}
	return nil
}

// oldest returns the index of the oldest resource that is kept.
func (r *respResources) oldest() uint64 { return r.added - min(r.added, uint64(len(r.entries))) }

func (r *respResources) at(i uint64) *respResource { return &r.entries[i%uint64(len(r.entries))] }
