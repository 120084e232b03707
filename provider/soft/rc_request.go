//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// maxConnWindow is how many packets of a connection may be unacknowledged. It is the
	// limit of rxe (RXE_MAX_UNACKED_PSNS). The limit of all connections to an address
	// together is in type congestion.
	maxConnWindow = 128
	// ackEveryPackets is the greatest number of packets of a message that are sent without
	// a request for an acknowledgement. It is arbitrary.
	ackEveryPackets = 32
	// readPiece is how many packets of a READ's response are requested at a time. The
	// peer sends these packets without a pause, so the socket of this side must have
	// room for all of them.
	readPiece = 32
)

// rcRequester has the state of the requester of a rcConn. To send requests again, the
// requester sets seq back to an earlier sequence; see goBack.
type rcRequester struct {
	ackedEnd        uint64 // all sequences below ackedEnd were acknowledged by the peer
	seq             uint64 // sequence of the next packet to be sent
	sentEnd         uint64 // all sequences below sentEnd were sent at least once
	sinceAckRequest int    // packets sent since the last one with the AckReq bit
	readsInFlight   int    // READ requests and atomics that have no complete response
	blocked         bool   // true if the packetConn had no room
	// true while packets are sent again after a loss or an RNR NAK, and none of them was
	// acknowledged
	recovering bool
	retries    uint8 // retries since the last acknowledgement of a new packet
	// true if packets were acknowledged or sent again since the last check of the
	// retransmission timer
	progressed bool
	// time without progress, up to the last check of the retransmission timer
	sinceProgress time.Duration
	// number of packets in flight when the probe was sent; 0 without a probe
	probedInFlight  uint64
	atomicResult    [8]byte
	retransmitTimer timer
}

// sendRequests sends requests as far as the congestion window and the credits allow. It
// returns false if the packetConn had no room.
func (c *rcConn) sendRequests() bool {
	c.blocked = false
	for w := c.q.nextToSend(); w != nil; w = c.q.nextToSend() {
		if !c.sendRequest(w) {
			break
		}
	}
	c.startRetransmitTimer()
	if !c.waiting {
		c.shared.resume()
	}
	return !c.blocked
}

// sendRequest sends the packets of w from c.seq on, and reports whether all were sent.
func (c *rcConn) sendRequest(w *wqe) bool {
	if c.q.nextIsNew() {
		w.firstSeq, w.messageNumber = c.seq, c.messageNumber(w)
	}
	last := w.firstSeq + c.packetCount(w.total) - 1
	for c.seq <= last {
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
		c.sentEnd, c.messagesSent = max(c.sentEnd, c.seq), max(c.messagesSent, w.messageNumber)
		c.q.markBegun(w)
	}
	c.q.markSent(w, last)
	return true
}

// sendData sends the next packet of a SEND or WRITE. A packet that is sent again has the
// same opcode as before.
func (c *rcConn) sendData(w *wqe, last uint64) bool {
	if !c.windowAllows(1) || !c.creditAllows(w) {
		return false
	}
	offset := c.offset(w)
	length := min(w.total-offset, c.mtu)
	p, ok := c.requestPacket(dataOpcode(w, c.seq == w.firstSeq, c.seq == last), int(length))
	if !ok {
		return false
	}
	if length > 0 && !c.q.gather(p.Payload(), w, offset) {
		// The memory region was closed after the request was checked.
		c.q.failRequest(w, verbs.StatusLocProtErr)
		return false
	}
	if h := p.RETH(); h != nil {
		h.Set(w.addr, w.key, w.total)
	}
	if h := p.ImmDt(); h != nil {
		h.Set(w.imm)
	}
	p.BTH().SetSolicited(c.seq == last && w.flags&verbs.SendSolicited != 0)
	short := c.lacksCredit(w)
	if short {
		c.probing = false
	}
	c.pushRequest(p, 1, c.seq == last || short)
	return true
}

// dataOpcode returns the opcode of a packet of a SEND or WRITE.
func dataOpcode(w *wqe, first, last bool) wire.Opcode {
	op := wire.SendFirst
	if w.op == verbs.OpWrite || w.op == verbs.OpWriteImm {
		op = wire.WriteFirst
	}
	// The opcodes of SEND and of WRITE are in the same order.
	switch {
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

// sendReadRequest requests the next piece of a READ's response. For the peer each piece
// is a READ of its own. After a loss in the middle of a piece, the rest of the piece is
// requested as a further READ (IBTA vol. 1, 9.7.5.1.2).
func (c *rcConn) sendReadRequest(w *wqe, last uint64) bool {
	n := min(readPiece-(c.seq-w.firstSeq)%readPiece, last+1-c.seq)
	if c.readsInFlight >= int(c.q.attributes().MaxRdAtomic) || !c.windowAllows(n) {
		return false
	}
	p, ok := c.requestPacket(wire.ReadRequest, 0)
	if !ok {
		return false
	}
	offset := c.offset(w)
	p.RETH().Set(w.addr+uint64(offset), w.key, min(w.total-offset, uint32(n)*c.mtu))
	c.readsInFlight++
	c.pushRequest(p, n, true)
	return true
}

// sendAtomicRequest sends an atomic.
func (c *rcConn) sendAtomicRequest(w *wqe) bool {
	if c.readsInFlight >= int(c.q.attributes().MaxRdAtomic) || !c.windowAllows(1) {
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
	c.readsInFlight++
	c.pushRequest(p, 1, true)
	return true
}

// offset returns how many bytes of w come before the packet with sequence c.seq.
func (c *rcConn) offset(w *wqe) uint32 { return uint32(c.seq-w.firstSeq) << c.mtuShift }

// requestPacket returns a packet for the request with sequence c.seq, like newPacket.
func (c *rcConn) requestPacket(op wire.Opcode, payload int) (wire.Packet, bool) {
	p, ok := c.newPacket(op, payload, psnOf(c.ownBase(), c.seq))
	c.blocked = !ok
	return p, ok
}

// ownBase returns the PSN of the first own request.
func (c *rcConn) ownBase() psn.Value { return psn.Value(c.q.attributes().SQPSN) }

// pushRequest queues a request packet that takes n sequences. It sets the AckReq bit if
// ask is true, or if the acknowledgement of the message would come too late; see
// wantsAck.
func (c *rcConn) pushRequest(p wire.Packet, n uint64, ask bool) {
	if c.sinceAckRequest++; ask || c.wantsAck(n) {
		p.BTH().SetAckReq(true)
		c.sinceAckRequest = 0
	}
	c.push(p)
	c.seq += n
	c.updateInFlight()
	c.sentRequest = true
}
