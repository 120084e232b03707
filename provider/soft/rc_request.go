//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// window is how many sequences of a connection may be unanswered. It is what rxe
	// allows itself. See congestion for all connections together.
	maxConnWindow = 128
	// ackEveryPackets is after how many packets without it an acknowledgement is
	// asked for in the middle of a message, at the latest.
	ackEveryPackets = 32
	// readPiece is how many packets of a READ's response are asked for at a time:
	// the peer sends them in one go, and the socket has to hold them.
	readPiece = 32
)

// rcRequester is the sending half of a rcConn: where it stands in the
// sequence of requests. The position is all there is to know: going back is to
// set it back.
type rcRequester struct {
	seq             uint64        // of the next packet to be sent
	sentEnd         uint64        // nothing was sent from this sequence on
	sinceAckRequest int           // packets sent since an acknowledgement was asked for
	readsInFlight   int           // pieces of READs, and atomics, that are asked for
	blocked         bool          // the link had no room
	recovering      bool          // sending again what was lost, until there is progress
	retries         uint8         // in a row without progress
	progressed      bool          // something was answered, or sent again, since retry looked
	sinceProgress   time.Duration // without an answer, as far as retry has looked
	probedInFlight  uint64        // what was under way to the peer when it was asked; 0: it was not
	atomicResult    [8]byte
	retransmitTimer timer
}

// request sends requests as far as the window allows, and reports whether the
// link had room for them.
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

// sendRequest sends packets of w from where it stands, and reports whether all of
// it is out.
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

// sendData sends the next packet of a SEND or WRITE. A message that is sent again
// from the middle goes on with the opcode that the packet had before.
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
		c.q.failRequest(w, verbs.StatusLocProtErr) // the memory was closed after the request was checked
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

// dataOpcode is the opcode of a packet of a SEND or WRITE.
func dataOpcode(w *wqe, first, last bool) wire.Opcode {
	op := wire.SendFirst
	if w.op == verbs.OpWrite || w.op == verbs.OpWriteImm {
		op = wire.WriteFirst
	}
	// The opcodes of both are in the same order.
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

// sendReadRequest asks for the next piece of a READ's response. A piece is a READ of its
// own to the peer, and so is the rest of one that got lost in the middle (IBTA
// vol. 1, 9.7.5.1.2).
func (c *rcConn) sendReadRequest(w *wqe, last uint64) bool {
	n := min(readPiece-(c.seq-w.firstSeq)%readPiece, last+1-c.seq)
	if c.readsInFlight >= int(c.q.attr.MaxRdAtomic) || !c.windowAllows(n) {
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

func (c *rcConn) sendAtomicRequest(w *wqe) bool {
	if c.readsInFlight >= int(c.q.attr.MaxRdAtomic) || !c.windowAllows(1) {
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

// offset is how many bytes of w come before the packet at hand.
func (c *rcConn) offset(w *wqe) uint32 { return uint32(c.seq-w.firstSeq) << c.mtuShift }

func (c *rcConn) requestPacket(op wire.Opcode, payload int) (wire.Packet, bool) {
	p, ok := c.newPacket(op, payload, psnOf(c.ownBase(), c.seq))
	c.blocked = !ok
	return p, ok
}

// ownBase is the number of the first own request.
func (c *rcConn) ownBase() psn.Value { return psn.Value(c.q.attr.SQPSN) }

// pushRequest queues a packet that takes n sequences, and asks for an
// acknowledgement, now or in time.
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
