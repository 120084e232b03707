//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// rcResponder is the receiving half of a rcConn: what was carried out, and
// what the peer is owed for it.
type rcResponder struct {
	peerBase  psn.Value // number of the peer's first request
	expected  uint64    // sequence of the next request
	dataEnd   uint64    // sequence after the last SEND or WRITE that was carried out
	msn       psn.Value // messages completed
	resources respResources

	ackDue       bool          // the peer wants to know
	nak          wire.Syndrome // to be sent when nakDue
	nakDue       bool
	nakSent      bool    // a NAK was due for what is expected, and no other is
	duplicateEnd uint64  // the sequence behind the first that came again, until a new one does
	fatalOutcome outcome // the request that ends the queue pair, when its answer is out
	ackDelay
}

func (r *rcResponder) init(attr *verbs.QPAttr) {
	r.peerBase = psn.Value(attr.RQPSN)
	r.resources = newRespResources(int(attr.MaxDestRdAtomic))
}

// receiveRequest takes a request packet (IBTA vol. 1, 9.7.4.1). After one that
// ends the queue pair nothing counts.
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

// missing: packets in front of this one were lost. The peer is told once.
func (c *rcConn) onSequenceGap() {
	if !c.nakSent {
		c.q.shard.counts.inc(outOfSeqRequest)
		c.scheduleNAK(wire.NAK(wire.NAKSequence))
	}
}

// refuse makes a NAK due about the packet that is expected.
func (c *rcConn) scheduleNAK(s wire.Syndrome) {
	c.nak, c.nakDue, c.nakSent = s, true, true
	c.schedule()
}

// execute executes the request that is expected.
func (c *rcConn) execute(p wire.Packet) {
	op := p.Opcode()
	a := outcomeInvalidRequest
	switch {
	case !op.FitsPayload(len(p.Payload()), int(c.mtu)), p.RETH() != nil && p.RETH().Length() > maxMsgSize,
		p.IETH() != nil: // there are no keys that a peer could invalidate
		a = c.q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
	case (op.Kind() == wire.KindRead || op.Kind() == wire.KindAtomic) && c.resources.full():
		// The peer has more requests outstanding than the agreed responder resources (IBTA
		// vol. 1, 9.7.4.1.5 and 9.7.5.2.3).
		a = c.q.failReceive(verbs.StatusRemInvReqErr, outcomeInvalidRequest)
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
		c.q.shard.counts.notReady()
		c.scheduleNAK(wire.RNRNAK(c.q.attr.MinRNRTimer))
	default:
		c.abort(a)
	}
}

// source implements path.
func (c *rcConn) accessSource() (accessSource, bool) { return remoteSource(c.to.remote), true }

// requestsPending implements path. It is always false, because sockets are emptied
// before a timer fires.
func (c *rcConn) requestsPending() bool { return false }

// abort implements path.
func (c *rcConn) abort(a outcome) {
	c.fatalOutcome = a
	c.scheduleNAK(wire.NAK(nakCode(a)))
}

func nakCode(a outcome) wire.NAKCode {
	return wire.NAKInvalidRequest + wire.NAKCode(a-outcomeInvalidRequest)
}

func (c *rcConn) executeData(p wire.Packet) outcome {
	bth, op := p.BTH(), p.Opcode()
	r := inboundRequest{frame: frame{op: frameSend}, payload: p.Payload()}
	r.flags = flagIf(flagFirst, op.First()) | flagIf(flagLast, op.Last()) | flagIf(flagSolicited, bth.Solicited())
	if op.Kind() == wire.KindWrite {
		r.op = frameWrite
	}
	if h := p.RETH(); h != nil {
		r.addr, r.key, r.total = h.Addr(), h.RKey(), h.Length()
	}
	if h := p.ImmDt(); h != nil {
		r.flags, r.imm = r.flags|flagImm, h.Value()
	}
	if a := c.q.deliver(&r); a != outcomeAck {
		return a
	}
	c.advanceExpected(1, r.last())
	c.dataEnd = c.expected
	if bth.AckReq() {
		c.scheduleAck()
	}
	return outcomeAck
}

// flagIf is flag if it is set.
func flagIf(flag frameFlags, set bool) frameFlags {
	if set {
		return flag
	}
	return 0
}

func (c *rcConn) executeRead(p wire.Packet) outcome {
	h := p.RETH()
	r := inboundRequest{frame: frame{op: frameRead, flags: flagFirst | flagLast, addr: h.Addr(), key: h.RKey(), total: h.Length()}}
	memory, a := c.q.deliverRead(&r)
	if a != outcomeAck {
		return a
	}
	n := c.packetCount(r.total)
	k := c.resources.add()
	k.source, k.unsent = memory, memory
	c.scheduleResponse(k, n)
	return outcomeAck
}

func (c *rcConn) executeAtomic(p wire.Packet) outcome {
	h := p.AtomicETH()
	const operands = wire.AtomicETHSize - atomicOperands
	r := inboundRequest{frame: frame{op: frameFetchAdd, flags: flagFirst | flagLast, addr: h.Addr(), key: h.RKey()}, payload: h[operands:]}
	if p.Opcode() == wire.CompareSwap {
		r.op = frameCompareSwap
	}
	old, a := c.q.deliverAtomic(&r)
	if a != outcomeAck {
		return a
	}
	k := c.resources.add()
	k.atomic, k.result = true, old
	c.scheduleResponse(k, 1)
	return outcomeAck
}

// keep makes the response of n packets due to what is at hand.
func (c *rcConn) scheduleResponse(k *respResource, n uint64) {
	k.first, k.last = c.expected, c.expected+n-1
	k.start, k.next, k.end = k.first, k.first, k.last
	c.advanceExpected(n, true)
	c.schedule()
}

// executed moves on past a request of n sequences.
func (c *rcConn) advanceExpected(n uint64, ends bool) {
	c.expected += n
	if ends {
		c.msn = c.msn.Add(1)
	}
}

// duplicate answers a request again that was carried out already (IBTA vol. 1,
// 9.7.4.2): with a new acknowledgement, with the memory as it is now, or with
// the result that an atomic had.
func (c *rcConn) duplicate(p wire.Packet, seq uint64) {
	c.q.shard.counts.inc(duplicateRequest)
	kind := p.Opcode().Kind()
	if c.duplicateEnd == 0 {
		c.duplicateEnd = seq + 1
	} else if c.duplicateEnd == seq+1 {
		c.demux.conn.onTimeout(&c.to) // our answers do not arrive
	}
	if kind == wire.KindSend || kind == wire.KindWrite {
		if seq < c.dataEnd {
			c.ackNow()
		}
		return
	}
	switch k, index := c.resources.find(seq); {
	case k == nil || k.atomic != (kind == wire.KindAtomic):
		return
	case k.atomic:
		c.resources.repeatFrom(index, seq, seq)
		c.schedule()
	default:
		c.repeatRead(p.RETH(), k, index, seq)
	}
}

// repeatRead answers a part of a READ again, from seq on. It has to lie within
// what was asked for the first time.
func (c *rcConn) repeatRead(h *wire.RETH, k *respResource, index, seq uint64) {
	offset := uint32(seq-k.first) << c.mtuShift
	if h.Addr() != k.source.addr+uint64(offset) || h.RKey() != k.source.key || h.Length() > k.source.left-offset {
		return
	}
	k.unsent = memoryRange{h.Addr(), h.RKey(), h.Length()}
	c.resources.repeatFrom(index, seq, seq+c.packetCount(h.Length())-1)
	c.schedule()
}
