//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// wireResponder is the receiving half of a wireLink: what was carried out, and
// what the peer is owed for it.
type wireResponder struct {
	base   psn.Value // number of the peer's first request
	expect uint64    // sequence of the next request
	plain  uint64    // sequence after the last SEND or WRITE that was carried out
	msn    psn.Value // messages completed
	kept   keptRing

	ackDue bool          // the peer wants to know
	nak    wire.Syndrome // to be sent when nakDue
	nakDue bool
	gap    bool   // a NAK was due for what is expected, and no other is
	again  uint64 // the sequence behind the first that came again, until a new one does
	failed answer // the request that ends the queue pair, when its answer is out
	ackHold
}

func (r *wireResponder) init(attr *verbs.QPAttr) {
	r.base = psn.Value(attr.RQPSN)
	r.kept = newKeptRing(int(attr.MaxDestRdAtomic))
}

// receiveRequest takes a request packet (IBTA vol. 1, 9.7.4.1). After one that
// ends the queue pair nothing counts.
func (l *wireLink) receiveRequest(p wire.Packet) {
	seq, ok := nearest(p.BTH().PSN(), l.base, l.expect)
	if !ok || l.failed != answerAck {
		return
	}
	switch {
	case seq > l.expect:
		l.missing()
	case seq < l.expect:
		l.duplicate(p, seq)
	default:
		l.gap, l.nakDue, l.again = false, false, 0
		l.carryOut(p)
	}
}

// missing: packets in front of this one were lost. The peer is told once.
func (l *wireLink) missing() {
	if !l.gap {
		l.q.shard.counts.inc(outOfSeqRequest)
		l.refuse(wire.NAK(wire.NAKSequence))
	}
}

// refuse makes a NAK due about the packet that is expected.
func (l *wireLink) refuse(s wire.Syndrome) {
	l.nak, l.nakDue, l.gap = s, true, true
	l.schedule()
}

// carryOut executes the request that is expected.
func (l *wireLink) carryOut(p wire.Packet) {
	op := p.Opcode()
	a := answerInvalidRequest
	switch {
	case !op.FitsPayload(len(p.Payload()), int(l.mtu)), p.RETH() != nil && p.RETH().Length() > maxMsgSize,
		p.IETH() != nil: // there are no keys that a peer could invalidate
		a = l.q.refuse(verbs.StatusRemInvReqErr, answerInvalidRequest)
	case (op.Kind() == wire.KindRead || op.Kind() == wire.KindAtomic) && l.kept.full():
		// The peer has more requests outstanding than the agreed responder resources (IBTA
		// vol. 1, 9.7.4.1.5 and 9.7.5.2.3).
		a = l.q.refuse(verbs.StatusRemInvReqErr, answerInvalidRequest)
	case op.Kind() == wire.KindRead:
		a = l.carryOutRead(p)
	case op.Kind() == wire.KindAtomic:
		a = l.carryOutAtomic(p)
	case op.Kind() == wire.KindSend, op.Kind() == wire.KindWrite:
		a = l.carryOutData(p)
	}
	switch a {
	case answerAck:
	case answerRNR:
		l.q.shard.counts.notReady()
		l.refuse(wire.RNRNAK(l.q.attr.MinRNRTimer))
	default:
		l.abort(a)
	}
}

// source implements path.
func (l *wireLink) source() (accessSource, bool) { return remoteSource(l.to.remote), true }

// requestsWait implements path. It is always false, because sockets are emptied
// before a timer fires.
func (l *wireLink) requestsWait() bool { return false }

// abort implements path.
func (l *wireLink) abort(a answer) {
	l.failed = a
	l.refuse(wire.NAK(nakCode(a)))
}

func nakCode(a answer) wire.NAKCode {
	return wire.NAKInvalidRequest + wire.NAKCode(a-answerInvalidRequest)
}

func (l *wireLink) carryOutData(p wire.Packet) answer {
	bth, op := p.BTH(), p.Opcode()
	r := request{frame: frame{op: frameSend}, payload: p.Payload()}
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
	if a := l.q.deliver(&r); a != answerAck {
		return a
	}
	l.carriedOut(1, r.last())
	l.plain = l.expect
	if bth.AckReq() {
		l.acknowledge()
	}
	return answerAck
}

// flagIf is flag if it is set.
func flagIf(flag frameFlags, set bool) frameFlags {
	if set {
		return flag
	}
	return 0
}

func (l *wireLink) carryOutRead(p wire.Packet) answer {
	h := p.RETH()
	r := request{frame: frame{op: frameRead, flags: flagFirst | flagLast, addr: h.Addr(), key: h.RKey(), total: h.Length()}}
	memory, a := l.q.deliverRead(&r)
	if a != answerAck {
		return a
	}
	n := l.packets(r.total)
	k := l.kept.add()
	k.memory, k.rest = memory, memory
	l.keep(k, n)
	return answerAck
}

func (l *wireLink) carryOutAtomic(p wire.Packet) answer {
	h := p.AtomicETH()
	const operands = wire.AtomicETHSize - atomicOperands
	r := request{frame: frame{op: frameFetchAdd, flags: flagFirst | flagLast, addr: h.Addr(), key: h.RKey()}, payload: h[operands:]}
	if p.Opcode() == wire.CompareSwap {
		r.op = frameCompareSwap
	}
	old, a := l.q.deliverAtomic(&r)
	if a != answerAck {
		return a
	}
	k := l.kept.add()
	k.atomic, k.result = true, old
	l.keep(k, 1)
	return answerAck
}

// keep makes the response of n packets due to what is at hand.
func (l *wireLink) keep(k *kept, n uint64) {
	k.first, k.last = l.expect, l.expect+n-1
	k.start, k.next, k.end = k.first, k.first, k.last
	l.carriedOut(n, true)
	l.schedule()
}

// carriedOut moves on past a request of n sequences.
func (l *wireLink) carriedOut(n uint64, ends bool) {
	l.expect += n
	if ends {
		l.msn = l.msn.Add(1)
	}
}

// duplicate answers a request again that was carried out already (IBTA vol. 1,
// 9.7.4.2): with a new acknowledgement, with the memory as it is now, or with
// the result that an atomic had.
func (l *wireLink) duplicate(p wire.Packet, seq uint64) {
	l.q.shard.counts.inc(duplicateRequest)
	kind := p.Opcode().Kind()
	if l.again == 0 {
		l.again = seq + 1
	} else if l.again == seq+1 {
		l.s.link.doubt(&l.to) // our answers do not arrive
	}
	if kind == wire.KindSend || kind == wire.KindWrite {
		if seq < l.plain {
			l.acknowledgeNow()
		}
		return
	}
	switch k, index := l.kept.find(seq); {
	case k == nil || k.atomic != (kind == wire.KindAtomic):
		return
	case k.atomic:
		l.kept.again(index, seq, seq)
		l.schedule()
	default:
		l.readAgain(p.RETH(), k, index, seq)
	}
}

// readAgain answers a part of a READ again, from seq on. It has to lie within
// what was asked for the first time.
func (l *wireLink) readAgain(h *wire.RETH, k *kept, index, seq uint64) {
	offset := uint32(seq-k.first) << l.mtuShift
	if h.Addr() != k.memory.addr+uint64(offset) || h.RKey() != k.memory.key || h.Length() > k.memory.left-offset {
		return
	}
	k.rest = remoteWindow{h.Addr(), h.RKey(), h.Length()}
	l.kept.again(index, seq, seq+l.packets(h.Length())-1)
	l.schedule()
}
