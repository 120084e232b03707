//go:build linux

package rcpath

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
)

// receiveRequest processes a request packet (IBTA vol. 1, 9.7.4.1).
func (c *Conn) receiveRequest(p wire.Packet) {
	seq, ok := c.resp.accepts(p.BTH().PSN())
	switch {
	case !ok:
	case seq > c.resp.expected:
		c.onSequenceGap(p, seq)
	case seq < c.resp.expected:
		c.duplicate(p, seq)
	case c.resp.awaitsMissing():
		c.executeMissing(p)
	default:
		c.resp.onExpected()
		c.execute(p)
	}
}

// execute executes the expected request packet, or schedules a NAK or an RNR NAK.
func (c *Conn) execute(p wire.Packet) {
	op := p.Opcode()
	a := qp.OutcomeInvalidRequest
	switch {
	case !op.FitsPayload(len(p.Payload()), int(c.mtu)), p.RETH() != nil && p.RETH().Length() > qp.MaxMsgSize:
		a = c.q.OnInvalidRequest()
	case (op.Kind() == wire.KindRead || op.Kind() == wire.KindAtomic) && c.resp.resources.full():
		// The peer has too many READs and atomics outstanding (IBTA vol. 1, 9.7.4.1.5
		// and 9.7.5.2.3).
		a = c.q.OnInvalidRequest()
	case op.Kind() == wire.KindRead:
		a = c.executeRead(p)
	case op.Kind() == wire.KindAtomic:
		a = c.executeAtomic(p)
	case op.Kind() == wire.KindSend, op.Kind() == wire.KindWrite:
		a = c.executeData(p)
	}
	switch a {
	case qp.OutcomeAck:
	case qp.OutcomeRNR:
		c.q.Counts().RNRSent()
		c.resp.scheduleNAK(wire.RNRNAK(c.q.RNRTimer()))
		c.schedule()
	default:
		c.Abort(a)
	}
}

// AccessSource implements qp.Path. It returns the peer's IP address.
func (c *Conn) AccessSource() (access.Source, bool) { return access.RemoteSource(c.to.Remote), true }

// Abort implements qp.Path. The next call of shard.drive() sends a NAK and calls
// RequestFailed.
func (c *Conn) Abort(a qp.Outcome) {
	c.resp.fail(a)
	c.schedule()
}

// executeData executes a packet of a SEND or WRITE.
func (c *Conn) executeData(p wire.Packet) qp.Outcome {
	bth, op := p.BTH(), p.Opcode()
	if op == wire.SendOnly && c.q.DeliverInline(p.Payload(), bth.Solicited()) {
		c.executedData(bth, true)
		return qp.OutcomeAck
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
	if h := p.IETH(); h != nil {
		r.Op, r.Imm = fragment.SendInv, h.RKey()
	}
	if a := c.q.Deliver(&r); a != qp.OutcomeAck {
		return a
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
	memory, a := c.q.DeliverRead(&r)
	if a != qp.OutcomeAck {
		return a
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
	old, a := c.q.DeliverAtomic(&r)
	if a != qp.OutcomeAck {
		return a
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
		c.demux.Conn.OnTimeout(&c.to)
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
