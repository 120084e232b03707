//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sendRequests sends what the congestion window and the credits allow. It returns false
// if the packetConn is full.
func (c *rcConn) sendRequests() bool {
	c.req.blocked = false
	for w := c.q.nextToSend(); w != nil; w = c.q.nextToSend() {
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
func (c *rcConn) sendRequest(w *wqe) bool {
	if c.q.nextIsNew() {
		w.rc.firstSeq, w.rc.messageNumber = c.req.seq, c.credits.messagesSent+c.messageCount(w)
	}
	last := w.rc.firstSeq + c.packetCount(w.total) - 1
	for c.req.seq <= last {
		var ok bool
		switch {
		case w.op == verbs.OpRead:
			ok = c.sendReadRequest(w, last)
		case w.op.Atomic():
			ok = c.sendAtomicRequest(w)
		default:
			ok = c.sendData(w, last)
		}
		if !ok {
			return false
		}
		c.credits.messagesSent = max(c.credits.messagesSent, w.rc.messageNumber)
		c.q.markBegun(w)
	}
	c.q.markSent(w, last)
	return true
}

// sendData sends the next packet of a SEND or WRITE.
func (c *rcConn) sendData(w *wqe, last uint64) bool {
	if !c.windowAllows(1) || !c.credits.allows(w, &c.req) {
		return false
	}
	offset := c.offset(w)
	length := min(w.total-offset, c.mtu)
	p, ok := c.requestPacket(dataOpcode(w, c.req.seq == w.rc.firstSeq, c.req.seq == last), int(length))
	if !ok {
		return false
	}
	if length > 0 && !c.q.gather(p.Payload(), w, offset) {
		// The memory region has been closed since the check of the request.
		c.q.failRequest(w, verbs.StatusLocProtErr)
		return false
	}
	if h := p.RETH(); h != nil {
		h.Set(w.addr, w.key, w.total)
	}
	if h := p.ImmDt(); h != nil {
		h.Set(w.imm)
	}
	if h := p.IETH(); h != nil {
		h.Set(w.key)
	}
	p.BTH().SetSolicited(c.req.seq == last && w.flags&verbs.SendSolicited != 0)
	short := c.credits.lacks(w)
	if short {
		c.credits.probeSent()
	}
	c.pushRequest(p, 1, c.req.seq == last || short)
	return true
}

// dataOpcode returns the opcode of a packet of a SEND or WRITE.
func dataOpcode(w *wqe, first, last bool) wire.Opcode {
	op := wire.SendFirst
	if w.op == verbs.OpWrite || w.op == verbs.OpWriteImm {
		op = wire.WriteFirst
	}
	// The opcodes of WRITE have the same order as those of SEND.
	switch {
	case last && w.op == verbs.OpSendInv && first:
		return wire.SendOnlyInv
	case last && w.op == verbs.OpSendInv:
		return wire.SendLastInv
	case first && last:
		op += wire.SendOnly - wire.SendFirst
	case last:
		op += wire.SendLast - wire.SendFirst
	case !first:
		op += wire.SendMiddle - wire.SendFirst
	}
	if last && (w.op == verbs.OpSendImm || w.op == verbs.OpWriteImm) {
		op += wire.SendOnlyImm - wire.SendOnly
	}
	return op
}

// sendReadRequest requests the next piece of a READ's response. After a loss it requests
// the rest of a piece (IBTA vol. 1, 9.7.5.1.2).
func (c *rcConn) sendReadRequest(w *wqe, last uint64) bool {
	n := min(readPiece-(c.req.seq-w.rc.firstSeq)%readPiece, last+1-c.req.seq)
	if c.req.readsInFlight >= int(c.q.attributes().MaxRdAtomic) || !c.windowAllows(n) {
		return false
	}
	p, ok := c.requestPacket(wire.ReadRequest, 0)
	if !ok {
		return false
	}
	offset := c.offset(w)
	p.RETH().Set(w.addr+uint64(offset), w.key, min(w.total-offset, uint32(n)*c.mtu))
	c.req.readsInFlight++
	c.pushRequest(p, n, true)
	return true
}

func (c *rcConn) sendAtomicRequest(w *wqe) bool {
	if c.req.readsInFlight >= int(c.q.attributes().MaxRdAtomic) || !c.windowAllows(1) {
		return false
	}
	op, swapAdd, compare := wire.FetchAdd, w.compare, uint64(0)
	if w.op == verbs.OpCompareSwap {
		op, swapAdd, compare = wire.CompareSwap, w.swap, w.compare
	}
	p, ok := c.requestPacket(op, 0)
	if !ok {
		return false
	}
	p.AtomicETH().Set(w.addr, w.key, swapAdd, compare)
	c.req.readsInFlight++
	c.pushRequest(p, 1, true)
	return true
}

// offset returns the position in w of the first byte of the packet c.req.seq.
func (c *rcConn) offset(w *wqe) uint32 { return uint32(c.req.seq-w.rc.firstSeq) << c.mtuShift }

// requestPacket calls newPacket for the request packet c.req.seq.
func (c *rcConn) requestPacket(op wire.Opcode, payload int) (wire.Packet, bool) {
	p, ok := c.newPacket(op, payload, psnOf(c.ownBase(), c.req.seq))
	c.req.blocked = !ok
	return p, ok
}

// ownBase returns the PSN of the first request packet.
func (c *rcConn) ownBase() psn.Value { return psn.Value(c.q.attributes().SQPSN) }

// windowAllows reports whether n more packets may be in flight. In recoveryTailProbe
// only the probe may be in flight.
func (c *rcConn) windowAllows(n uint64) bool {
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
func (c *rcConn) wantsAck(n uint64) bool {
	interval := min(ackEveryPackets, c.cong.quarterWindow())
	return c.retry.tailProbing() || c.req.sinceAckRequest+1 >= interval || c.cong.fills(n)
}

// pushRequest queues a request packet of n sequences. It sets the AckReq bit if ask is
// true or wantsAck returns true.
func (c *rcConn) pushRequest(p wire.Packet, n uint64, ask bool) {
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
func (c *rcConn) updateInFlight() {
	n := c.req.unacked()
	if c.q.awaitsRNRTimer() || !c.q.isServing() {
		n = 0
	}
	c.cong.setInFlight(n)
}
