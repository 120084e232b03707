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
	// allows itself. See wirePeer for all connections together.
	window = 128
	// ackEveryPackets is after how many packets without it an acknowledgement is
	// asked for in the middle of a message, at the latest.
	ackEveryPackets = 32
	// readPiece is how many packets of a READ's response are asked for at a time:
	// the peer sends them in one go, and the socket has to hold them.
	readPiece = 32
)

// wireRequester is the sending half of a wireLink: where it stands in the
// sequence of requests. The position is all there is to know: going back is to
// set it back.
type wireRequester struct {
	seq        uint64        // of the next packet to be sent
	high       uint64        // nothing was sent from this sequence on
	quiet      int           // packets sent since an acknowledgement was asked for
	pieces     int           // pieces of READs, and atomics, that are asked for
	full       bool          // the link had no room
	recovering bool          // sending again what was lost, until there is progress
	tries      uint8         // in a row without progress
	touched    bool          // something was answered, or sent again, since retry looked
	silent     time.Duration // without an answer, as far as retry has looked
	inquired   uint64        // what was under way to the peer when it was asked; 0: it was not
	result     [8]byte
	retry      timer
}

// request sends requests as far as the window allows, and reports whether the
// link had room for them.
func (l *wireLink) request() bool {
	l.full = false
	for w := l.q.toSend(); w != nil; w = l.q.toSend() {
		if !l.sendRequest(w) {
			break
		}
	}
	l.watch()
	if !l.waits {
		l.peer.resume()
	}
	return !l.full
}

// sendRequest sends packets of w from where it stands, and reports whether all of
// it is out.
func (l *wireLink) sendRequest(w *wqe) bool {
	if l.q.fresh() {
		w.firstSeq, w.message = l.seq, l.messageNumber(w)
	}
	last := w.firstSeq + l.packets(w.total) - 1
	for l.seq <= last {
		var ok bool
		switch {
		case w.op == verbs.OpRead:
			ok = l.sendRead(w, last)
		case w.op.Atomic():
			ok = l.sendAtomic(w)
		default:
			ok = l.sendData(w, last)
		}
		if !ok {
			return false
		}
		l.high, l.begun = max(l.high, l.seq), max(l.begun, w.message)
		l.q.begin(w)
	}
	l.q.sent(w, last)
	return true
}

// sendData sends the next packet of a SEND or WRITE. A message that is sent again
// from the middle goes on with the opcode that the packet had before.
func (l *wireLink) sendData(w *wqe, last uint64) bool {
	if !l.open(1) || !l.credited(w) {
		return false
	}
	offset := l.offset(w)
	length := min(w.total-offset, l.mtu)
	p, ok := l.requestPacket(dataOpcode(w, l.seq == w.firstSeq, l.seq == last), int(length))
	if !ok {
		return false
	}
	if length > 0 && !l.q.gather(p.Payload(), w, offset) {
		l.q.spoil(w, verbs.StatusLocProtErr) // the memory was closed after the request was checked
		return false
	}
	if h := p.RETH(); h != nil {
		h.Set(w.addr, w.key, w.total)
	}
	if h := p.ImmDt(); h != nil {
		h.Set(w.imm)
	}
	p.BTH().SetSolicited(l.seq == last && w.flags&verbs.SendSolicited != 0)
	short := l.short(w)
	if short {
		l.asking = false
	}
	l.pushRequest(p, 1, l.seq == last || short)
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

// sendRead asks for the next piece of a READ's response. A piece is a READ of its
// own to the peer, and so is the rest of one that got lost in the middle (IBTA
// vol. 1, 9.7.5.1.2).
func (l *wireLink) sendRead(w *wqe, last uint64) bool {
	n := min(readPiece-(l.seq-w.firstSeq)%readPiece, last+1-l.seq)
	if l.pieces >= int(l.q.attr.MaxRdAtomic) || !l.open(n) {
		return false
	}
	p, ok := l.requestPacket(wire.ReadRequest, 0)
	if !ok {
		return false
	}
	offset := l.offset(w)
	p.RETH().Set(w.addr+uint64(offset), w.key, min(w.total-offset, uint32(n)*l.mtu))
	l.pieces++
	l.pushRequest(p, n, true)
	return true
}

func (l *wireLink) sendAtomic(w *wqe) bool {
	if l.pieces >= int(l.q.attr.MaxRdAtomic) || !l.open(1) {
		return false
	}
	op, swapAdd, compare := wire.FetchAdd, w.compare, uint64(0)
	if w.op == verbs.OpCompareSwap {
		op, swapAdd, compare = wire.CompareSwap, w.swap, w.compare
	}
	p, ok := l.requestPacket(op, 0)
	if !ok {
		return false
	}
	p.AtomicETH().Set(w.addr, w.key, swapAdd, compare)
	l.pieces++
	l.pushRequest(p, 1, true)
	return true
}

// offset is how many bytes of w come before the packet at hand.
func (l *wireLink) offset(w *wqe) uint32 { return uint32(l.seq-w.firstSeq) << l.mtuShift }

func (l *wireLink) requestPacket(op wire.Opcode, payload int) (wire.Packet, bool) {
	p, ok := l.packet(op, payload, number(l.requestBase(), l.seq))
	l.full = !ok
	return p, ok
}

// requestBase is the number of the first own request.
func (l *wireLink) requestBase() psn.Value { return psn.Value(l.q.attr.SQPSN) }

// pushRequest queues a packet that takes n sequences, and asks for an
// acknowledgement, now or in time.
func (l *wireLink) pushRequest(p wire.Packet, n uint64, ask bool) {
	if l.quiet++; ask || l.wantsAck(n) {
		p.BTH().SetAckReq(true)
		l.quiet = 0
	}
	l.push(p)
	l.seq += n
	l.account()
	l.replied = true
}
