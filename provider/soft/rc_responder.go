//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// rcResponder has the state of the responder of a rcConn: how far the peer's requests
// were executed, and which acknowledgements and responses are to be sent.
type rcResponder struct {
	peerBase  psn.Value // PSN of the peer's first request
	expected  uint64    // sequence of the next request packet to be executed
	dataEnd   uint64    // sequence after the last SEND or WRITE packet that was executed
	msn       psn.Value // message sequence number: number of messages completed
	resources respResources

	ackDue bool          // true if an acknowledgement has to be sent
	nak    wire.Syndrome // syndrome to be sent if nakDue is true
	nakDue bool
	// true if a NAK for the expected packet was scheduled; then no second NAK is sent
	// for that packet
	nakSent      bool
	duplicateEnd uint64  // sequence after the first duplicate since the last new request; 0 if none
	fatalOutcome outcome // outcome of the request that ends the queue pair; else outcomeAck
	ackDelay
}

func (r *rcResponder) init(attr *verbs.QPAttr) {
	r.peerBase = psn.Value(attr.RQPSN)
	r.resources = newRespResources(int(attr.MaxDestRdAtomic))
}

// receiveRequest processes a request packet (IBTA vol. 1, 9.7.4.1). It drops all packets
// after a request that ends the queue pair.
func (c *rcConn) receiveRequest(p wire.Packet) {
	seq, ok := nearestSeq(p.BTH().PSN(), c.peerBase, c.expected)
	if !ok || c.fatalOutcome != outcomeAck {
		return
	}
	switch {
	case seq > c.expected:
		c.onSequenceGap()
	case seq < c.expected:
		c.duplicate(p, seq)
	default:
		c.nakSent, c.nakDue, c.duplicateEnd = false, false, 0
		c.execute(p)
	}
}

// onSequenceGap is called for a packet after the expected one, because packets before it
// were lost. It sends one sequence error NAK for each gap.
func (c *rcConn) onSequenceGap() {
	if !c.nakSent {
		c.q.shard.counts.Inc(counters.OutOfSeqRequest)
		c.scheduleNAK(wire.NAK(wire.NAKSequence))
	}
}

// scheduleNAK schedules a NAK or an RNR NAK, which is sent for the expected packet.
func (c *rcConn) scheduleNAK(s wire.Syndrome) {
	c.nak, c.nakDue, c.nakSent = s, true, true
	c.schedule()
}

// execute executes the expected request packet.
func (c *rcConn) execute(p wire.Packet) {
	op := p.Opcode()
	a := outcomeInvalidRequest
	switch {
	case !op.FitsPayload(len(p.Payload()), int(c.mtu)), p.RETH() != nil && p.RETH().Length() > maxMsgSize,
		p.IETH() != nil: // SEND with invalidate is not supported.
		a = c.q.onInvalidRequest()
	case (op.Kind() == wire.KindRead || op.Kind() == wire.KindAtomic) && c.resources.full():
		// The peer has more requests outstanding than response resources were agreed (IBTA
		// vol. 1, 9.7.4.1.5 and 9.7.5.2.3).
		a = c.q.onInvalidRequest()
	case op.Kind() == wire.KindRead:
		a = c.executeRead(p)
	case op.Kind() == wire.KindAtomic:
		a = c.executeAtomic(p)
	case op.Kind() == wire.KindSend, op.Kind() == wire.KindWrite:
		a = c.executeData(p)
	}
	switch a {
	case outcomeAck:
	case outcomeRNR:
		c.q.shard.counts.RNRSent()
		c.scheduleNAK(wire.RNRNAK(c.q.attributes().MinRNRTimer))
	default:
		c.abort(a)
	}
}

// accessSource implements path.
func (c *rcConn) accessSource() (access.Source, bool) { return access.RemoteSource(c.to.Remote), true }

// requestsPending implements path. It returns false, because drive reads all packets
// from the sockets before it fires timers.
func (c *rcConn) requestsPending() bool { return false }

// abort implements path.
func (c *rcConn) abort(a outcome) {
	c.fatalOutcome = a
	c.scheduleNAK(wire.NAK(nakCode(a)))
}

// nakCode returns the NAK code of an outcome other than outcomeAck and outcomeRNR.
func nakCode(a outcome) wire.NAKCode {
	return wire.NAKInvalidRequest + wire.NAKCode(a-outcomeInvalidRequest)
}

// executeData executes a packet of a SEND or WRITE.
func (c *rcConn) executeData(p wire.Packet) outcome {
	bth, op := p.BTH(), p.Opcode()
	r := fragment.Fragment{Op: fragment.Send, Flags: dataFlags(op, bth.Solicited()), Payload: p.Payload()}
	if op.Kind() == wire.KindWrite {
		r.Op = fragment.Write
	}
	if h := p.RETH(); h != nil {
		r.Addr, r.Key, r.Total = h.Addr(), h.RKey(), h.Length()
	}
	if h := p.ImmDt(); h != nil {
		r.Flags, r.Imm = r.Flags|fragment.Imm, h.Value()
	}
	if a := c.q.deliver(&r); a != outcomeAck {
		return a
	}
	c.advanceExpected(1, r.Last())
	c.dataEnd = c.expected
	if bth.AckReq() {
		c.scheduleAck()
	}
	return outcomeAck
}

// dataFlags returns the flags of the fragment that a packet of a SEND or WRITE has,
// without fragment.Imm.
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

// executeRead checks a READ, and schedules its response.
func (c *rcConn) executeRead(p wire.Packet) outcome {
	h := p.RETH()
	r := fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Addr: h.Addr(), Key: h.RKey(), Total: h.Length()}
	memory, a := c.q.deliverRead(&r)
	if a != outcomeAck {
		return a
	}
	n := c.packetCount(r.Total)
	res := c.resources.add()
	res.source, res.unsent = memory, memory
	c.scheduleResponse(res, n)
	return outcomeAck
}

// executeAtomic executes an atomic, and schedules its response.
func (c *rcConn) executeAtomic(p wire.Packet) outcome {
	h := p.AtomicETH()
	const operands = wire.AtomicETHSize - fragment.AtomicOperands
	r := fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last, Addr: h.Addr(), Key: h.RKey(), Payload: h[operands:]}
	if p.Opcode() == wire.CompareSwap {
		r.Op = fragment.CompareSwap
	}
	old, a := c.q.deliverAtomic(&r)
	if a != outcomeAck {
		return a
	}
	res := c.resources.add()
	res.atomic, res.result = true, old
	c.scheduleResponse(res, 1)
	return outcomeAck
}

// scheduleResponse schedules the response of n packets for the expected request, which
// has the resource res.
func (c *rcConn) scheduleResponse(res *respResource, n uint64) {
	res.first, res.last = c.expected, c.expected+n-1
	res.start, res.next, res.end = res.first, res.first, res.last
	c.advanceExpected(n, true)
	c.schedule()
}

// advanceExpected records that a request packet of n sequences was executed. ends is
// true for the last packet of a message.
func (c *rcConn) advanceExpected(n uint64, ends bool) {
	c.expected += n
	if ends {
		c.msn = c.msn.Add(1)
	}
}

// duplicate responds to a request that was executed before (IBTA vol. 1, 9.7.4.2): to a
// SEND or WRITE with an acknowledgement, to a READ with the present contents of the
// memory, and to an atomic with its first result.
func (c *rcConn) duplicate(p wire.Packet, seq uint64) {
	c.q.shard.counts.Inc(counters.DuplicateRequest)
	kind := p.Opcode().Kind()
	if c.duplicateEnd == 0 {
		c.duplicateEnd = seq + 1
	} else if c.duplicateEnd == seq+1 {
		c.demux.conn.OnTimeout(&c.to) // the peer did not get the first repeated response
	}
	if kind == wire.KindSend || kind == wire.KindWrite {
		if seq < c.dataEnd {
			c.ackNow()
		}
		return
	}
	switch res, index := c.resources.find(seq); {
	case res == nil || res.atomic != (kind == wire.KindAtomic):
		return
	case res.atomic:
		c.resources.repeatFrom(index, seq, seq)
		c.schedule()
	default:
		c.repeatRead(p.RETH(), res, index, seq)
	}
}

// repeatRead schedules a part of a READ's response again, from the sequence seq on. It
// drops the request if the memory is not within that of the first request.
func (c *rcConn) repeatRead(h *wire.RETH, res *respResource, index, seq uint64) {
	offset := uint32(seq-res.first) << c.mtuShift
	if h.Addr() != res.source.addr+uint64(offset) || h.RKey() != res.source.key || h.Length() > res.source.left-offset {
		return
	}
	res.unsent = memoryRange{h.Addr(), h.RKey(), h.Length()}
	c.resources.repeatFrom(index, seq, seq+c.packetCount(h.Length())-1)
	c.schedule()
}
