//go:build linux

package rcpath

import (
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sendRequests sends what the congestion window and the credits allow. It returns false
// if the packets.Conn is full.
func (c *Conn) sendRequests() bool {
	c.req.blocked = false
	for w := c.q.NextToSend(); w != nil; w = c.q.NextToSend() {
		if !c.sendRequest(w) {
			break
		}
	}
	c.req.awaitsRoom = c.cong.waiting
	c.startRetransmitTimer()
	if !c.cong.waiting {
		c.cong.shared.resume()
	}
	return !c.req.blocked
}

// sendRequest sends the packets of w from c.req.seq on, and returns false if some are
// left.
func (c *Conn) sendRequest(w *qp.WQE) bool {
	if c.q.NextIsNew() {
		w.RC.FirstSeq, w.RC.MessageNumber = c.req.seq, c.credits.messagesSent+c.messageCount(w)
	}
	last := w.RC.FirstSeq + c.packetCount(w.Total) - 1
	for c.req.seq <= last {
		var ok bool
		switch {
		case w.Op == verbs.OpRead:
			ok = c.sendReadRequest(w, last)
		case w.Op.Atomic():
			ok = c.sendAtomicRequest(w)
		default:
			ok = c.sendData(w, last)
		}
		if !ok {
			return false
		}
		c.credits.messagesSent = max(c.credits.messagesSent, w.RC.MessageNumber)
		c.q.MarkBegun(w)
	}
	c.q.MarkSent(w, last)
	return true
}

// sendData sends the next packet of a SEND or WRITE.
func (c *Conn) sendData(w *qp.WQE, last uint64) bool {
	if !c.windowAllows(1) || !c.credits.allows(w, &c.req) {
		return false
	}
	offset := c.offset(w)
	length := min(w.Total-offset, c.mtu)
	p, ok := c.requestPacket(dataOpcode(w, c.req.seq == w.RC.FirstSeq, c.req.seq == last), int(length))
	if !ok {
		return false
	}
	if length > 0 && !c.q.Gather(p.Payload(), w, offset) {
		// The memory region has been closed since the check of the request.
		c.q.FailRequest(w, verbs.StatusLocProtErr)
		return false
	}
	if h := p.RETH(); h != nil {
		h.Set(w.Addr, w.Key, w.Total)
	}
	if h := p.ImmDt(); h != nil {
		h.Set(w.Imm)
	}
	if h := p.IETH(); h != nil {
		h.Set(w.Key)
	}
	p.BTH().SetSolicited(c.req.seq == last && w.Flags&verbs.SendSolicited != 0)
	short := c.credits.lacks(w)
	if short {
		c.credits.probeSent()
	}
	c.pushRequest(p, 1, c.req.seq == last || short)
	return true
}

// dataOpcode returns the opcode of a packet of a SEND or WRITE.
func dataOpcode(w *qp.WQE, first, last bool) wire.Opcode {
	op := wire.SendFirst
	if w.Op == verbs.OpWrite || w.Op == verbs.OpWriteImm {
		op = wire.WriteFirst
	}
	// The opcodes of WRITE have the same order as those of SEND.
	switch {
	case last && w.Op == verbs.OpSendInv && first:
		return wire.SendOnlyInv
	case last && w.Op == verbs.OpSendInv:
		return wire.SendLastInv
	case first && last:
		op += wire.SendOnly - wire.SendFirst
	case last:
		op += wire.SendLast - wire.SendFirst
	case !first:
		op += wire.SendMiddle - wire.SendFirst
	}
	if last && (w.Op == verbs.OpSendImm || w.Op == verbs.OpWriteImm) {
		op += wire.SendOnlyImm - wire.SendOnly
	}
	return op
}

// sendReadRequest requests the next piece of a READ's response. After a loss it requests
// the rest of a piece (IBTA vol. 1, 9.7.5.1.2).
func (c *Conn) sendReadRequest(w *qp.WQE, last uint64) bool {
	n := min(readPiece-(c.req.seq-w.RC.FirstSeq)%readPiece, last+1-c.req.seq)
	if c.req.readsInFlight >= int(c.q.Attributes().MaxRdAtomic) || !c.windowAllows(n) {
		return false
	}
	p, ok := c.requestPacket(wire.ReadRequest, 0)
	if !ok {
		return false
	}
	offset := c.offset(w)
	p.RETH().Set(w.Addr+uint64(offset), w.Key, min(w.Total-offset, uint32(n)*c.mtu))
	c.req.readsInFlight++
	c.pushRequest(p, n, true)
	return true
}

func (c *Conn) sendAtomicRequest(w *qp.WQE) bool {
	if c.req.readsInFlight >= int(c.q.Attributes().MaxRdAtomic) || !c.windowAllows(1) {
		return false
	}
	op, swapAdd, compare := wire.FetchAdd, w.Compare, uint64(0)
	if w.Op == verbs.OpCompareSwap {
		op, swapAdd, compare = wire.CompareSwap, w.Swap, w.Compare
	}
	p, ok := c.requestPacket(op, 0)
	if !ok {
		return false
	}
	p.AtomicETH().Set(w.Addr, w.Key, swapAdd, compare)
	c.req.readsInFlight++
	c.pushRequest(p, 1, true)
	return true
}

// offset returns the position in w of the first byte of the packet c.req.seq.
func (c *Conn) offset(w *qp.WQE) uint32 { return uint32(c.req.seq-w.RC.FirstSeq) << c.mtuShift }

// requestPacket calls newPacket for the request packet c.req.seq.
func (c *Conn) requestPacket(op wire.Opcode, payload int) (wire.Packet, bool) {
	p, ok := c.newPacket(op, payload, packets.PSNOf(c.ownBase(), c.req.seq))
	c.req.blocked = !ok
	return p, ok
}

// ownBase returns the PSN of the first request packet.
func (c *Conn) ownBase() psn.Value { return psn.Value(c.q.Attributes().SQPSN) }

// windowAllows reports whether n more packets may be in flight. In recoveryTailProbe
// only the probe may be in flight.
func (c *Conn) windowAllows(n uint64) bool {
	if c.req.unacked()+n > maxConnWindow || c.cong.inFlight > 0 && c.retry.tailProbing() {
		return false
	}
	return c.cong.allows(n)
}

// wantsAck reports whether a packet of n sequences needs the AckReq bit. These packets
// need the bit:
//
//   - a tail probe
//   - at least every ackEveryPackets-th packet, or one packet in each quarter of the
//     window if a quarter has fewer packets
//   - a packet that fills the window
func (c *Conn) wantsAck(n uint64) bool {
	interval := min(ackEveryPackets, c.cong.quarterWindow())
	return c.retry.tailProbing() || c.req.sinceAckRequest+1 >= interval || c.cong.fills(n)
}

// pushRequest queues a request packet of n sequences. It sets the AckReq bit if ask is
// true or wantsAck returns true.
func (c *Conn) pushRequest(p wire.Packet, n uint64, ask bool) {
	ask = ask || c.wantsAck(n)
	if ask {
		p.BTH().SetAckReq(true)
	}
	c.push(p)
	c.req.sent(n, ask)
	c.updateInFlight()
	c.acks.requestSent()
}

// updateInFlight tells the congestion control how many packets are in flight. While the
// RNR timer runs, and after a failure, the number is 0.
func (c *Conn) updateInFlight() {
	n := c.req.unacked()
	if c.q.AwaitsRNRTimer() || !c.q.IsServing() {
		n = 0
	}
	c.cong.setInFlight(n)
}
