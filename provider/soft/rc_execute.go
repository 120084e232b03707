//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

// receiveRequest processes a request packet (IBTA vol. 1, 9.7.4.1). It drops all packets
// after a request that ends the queue pair.
func (c *rcConn) receiveRequest(p wire.Packet) {
	seq, ok := c.resp.accepts(p.BTH().PSN())
	switch {
	case !ok:
	case seq > c.resp.expected:
		c.onSequenceGap()
	case seq < c.resp.expected:
		c.duplicate(p, seq)
	default:
		c.resp.onExpected()
		c.execute(p)
	}
}

// onSequenceGap is called for a packet after the expected one: packets between them were
// lost or are late. It makes one sequence error NAK due for each gap.
func (c *rcConn) onSequenceGap() {
	if c.resp.nakState == nakNone {
		c.q.shard.counts.Inc(counters.OutOfSeqRequest)
		c.resp.scheduleNAK(wire.NAK(wire.NAKSequence))
		c.schedule()
	}
}

// execute executes the expected request packet. If the request can not be executed, a
// NAK or an RNR NAK becomes due.
func (c *rcConn) execute(p wire.Packet) {
	op := p.Opcode()
	a := outcomeInvalidRequest
	switch {
	case !op.FitsPayload(len(p.Payload()), int(c.mtu)), p.RETH() != nil && p.RETH().Length() > maxMsgSize,
		p.IETH() != nil: // SEND with invalidate is not supported.
		a = c.q.onInvalidRequest()
	case (op.Kind() == wire.KindRead || op.Kind() == wire.KindAtomic) && c.resp.resources.full():
		// The peer has more READs and atomics outstanding than the agreed number of
		// response resources (IBTA vol. 1, 9.7.4.1.5 and 9.7.5.2.3).
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
		c.resp.scheduleNAK(wire.RNRNAK(c.q.attributes().MinRNRTimer))
		c.schedule()
	default:
		c.abort(a)
	}
}

// accessSource implements path. The source follows from the peer's IP address.
func (c *rcConn) accessSource() (access.Source, bool) { return access.RemoteSource(c.to.Remote), true }

// requestsPending implements path. It is called only when a timer fires. Before a timer
// fires, all packets that have arrived are read from the sockets and processed. So no
// packet is pending, and requestsPending returns false.
func (c *rcConn) requestsPending() bool { return false }

// abort implements path. It makes the NAK due. The next call of drive sends the NAK, and
// then calls requestFailed.
func (c *rcConn) abort(a outcome) {
	c.resp.fail(a)
	c.schedule()
}

// executeData executes a packet of a SEND or WRITE.
func (c *rcConn) executeData(p wire.Packet) outcome {
	bth, op := p.BTH(), p.Opcode()
	if op == wire.SendOnly && c.q.deliverInline(p.Payload(), bth.Solicited()) {
		c.executedData(bth, true)
		return outcomeAck
	}
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
	c.executedData(bth, r.Last())
	return outcomeAck
}

// executedData is called when a packet of a SEND or WRITE was executed. The parameter
// last is true for the last packet of the message.
func (c *rcConn) executedData(bth *wire.BTH, last bool) {
	c.resp.executedData(last)
	if bth.AckReq() {
		c.acks.schedule()
		c.schedule()
	}
}

// dataFlags returns the flags of the fragment that is made from a SEND or WRITE packet.
// The parameter solicited is the packet's solicited event bit. dataFlags does not set
// fragment.Imm; the caller does.
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

// executeRead checks the memory that a READ names, and makes the response due. The
// memory is read when the response is sent.
func (c *rcConn) executeRead(p wire.Packet) outcome {
	h := p.RETH()
	r := fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Addr: h.Addr(), Key: h.RKey(), Total: h.Length()}
	memory, a := c.q.deliverRead(&r)
	if a != outcomeAck {
		return a
	}
	c.resp.executedRead(memory, c.packetCount(r.Total))
	c.schedule()
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
	c.resp.executedAtomic(old)
	c.schedule()
	return outcomeAck
}

// duplicate responds to a request that was executed before (IBTA vol. 1, 9.7.4.2): to a
// SEND or WRITE with an acknowledgement, to a READ with the present contents of the
// memory, and to an atomic with its first result. It drops a request whose response is
// not known any more.
func (c *rcConn) duplicate(p wire.Packet, seq uint64) {
	c.q.shard.counts.Inc(counters.DuplicateRequest)
	if c.resp.onDuplicate(seq) {
		// The response was repeated, and the peer did not get it. Perhaps the network path
		// has changed.
		c.demux.conn.OnTimeout(&c.to)
	}
	repeated := false
	switch p.Opcode().Kind() {
	case wire.KindSend, wire.KindWrite:
		if seq < c.resp.dataEnd {
			c.ackNow()
		}
	case wire.KindRead:
		h := p.RETH()
		memory := memoryRange{h.Addr(), h.RKey(), h.Length()}
		repeated = c.resp.repeatRead(memory, seq, c.packetCount(memory.left), c.mtu)
	case wire.KindAtomic:
		repeated = c.resp.repeatAtomic(seq)
	}
	if repeated {
		c.schedule()
	}
}

// ackNow makes an acknowledgement due and prevents its delay.
func (c *rcConn) ackNow() {
	c.acks.scheduleNow()
	c.schedule()
}
