//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// receiveAnswer takes a response to an own request. One about what was never
// sent is dropped (IBTA vol. 1, 9.7.5.1.1).
func (l *wireLink) receiveAnswer(p wire.Packet) {
	seq, ok := nearest(p.BTH().PSN(), l.requestBase(), l.q.acked)
	if !ok || seq >= l.high {
		return
	}
	if h := p.AETH(); h != nil && l.limited {
		l.credit(h)
	}
	if p.Opcode().Kind() == wire.KindAcknowledge {
		l.acknowledgement(p.AETH().Syndrome(), seq)
	} else {
		l.response(p, seq)
	}
}

// acknowledgement takes an ACK or a NAK about the packet seq. Reserved syndromes
// are dropped.
func (l *wireLink) acknowledgement(syndrome wire.Syndrome, seq uint64) {
	switch kind := syndrome.Kind(); {
	case kind == wire.SyndromeAck:
		l.answeredTo(seq + 1)
	case seq < l.q.acked: // a late copy
	case kind == wire.SyndromeRNRNAK:
		l.notReady(syndrome.RNRTimer(), seq)
	case kind == wire.SyndromeNAK:
		l.refused(syndrome.NAKCode(), seq)
	}
}

// answeredTo takes that the peer has carried out everything in front of seq, and
// reports whether that is all there is to it. It is not when a READ or atomic
// among them has no response: that was lost then (IBTA vol. 1, 9.7.5.1.4).
func (l *wireLink) answeredTo(seq uint64) bool {
	known := seq
	if w := l.q.awaited(); w != nil {
		known = min(seq, max(l.q.acked, w.firstSeq))
	}
	if known > l.q.acked {
		l.q.acknowledged(known)
		l.progress()
	}
	if known < seq {
		l.lost()
	}
	return known >= seq && l.q.serves()
}

// progress follows qp.acked, which has moved.
func (l *wireLink) progress() {
	before := l.flight
	l.seq = max(l.seq, l.q.acked)
	l.account()
	l.grow(before - l.flight)
	l.peer.resume()
	if l.inquired > 0 && l.q.acked < l.high {
		l.shrink(l.inquired) // the packets after the acknowledged one were lost
	}
	l.inquired = 0
	l.recovering, l.tries, l.touched = false, 0, true
	if l.q.serves() && l.q.sq.next != l.q.sq.tail {
		l.schedule()
	}
}

// response takes data for the oldest READ or atomic. Any opcode is right at the
// sequence that is expected: rxe goes on with MIDDLE where it was asked again
// from the middle.
func (l *wireLink) response(p wire.Packet, seq uint64) {
	w := l.q.awaited()
	if w == nil || seq < max(l.q.acked, w.firstSeq) {
		return // a late copy
	}
	if seq > max(l.q.acked, w.firstSeq) {
		l.lost() // the one before it
		return
	}
	if !l.answeredTo(seq) {
		return
	}
	op, data := frameReadData, p.Payload()
	if p.Opcode().Kind() == wire.KindAtomicAcknowledge {
		// It goes to the memory as the processor would have stored it.
		binary.NativeEndian.PutUint64(l.result[:], p.AtomicAckETH().Original())
		op, data = frameAtomicResult, l.result[:]
	}
	last := seq == w.lastSeq
	if !l.q.response(op, data, last) || !last && len(data) != int(l.mtu) {
		l.q.failOldest(verbs.StatusBadRespErr)
		return
	}
	if l.pieces > 0 && (last || (seq+1-w.firstSeq)%readPiece == 0) {
		l.pieces--
	}
	l.q.acknowledged(seq + 1)
	l.progress()
}

// notReady takes an RNR NAK about the packet seq.
func (l *wireLink) notReady(code uint8, seq uint64) {
	if !l.q.waitingRNR && l.answeredTo(seq) {
		l.q.notReady(code)
		l.account()
	}
}

// refused takes a NAK about the packet seq.
func (l *wireLink) refused(code wire.NAKCode, seq uint64) {
	switch {
	case code > wire.NAKRemoteOperational:
		return // reserved, or not of RC
	case l.q.waitingRNR && code == wire.NAKSequence:
		return // about what was in flight behind the packet that has to wait
	case !l.answeredTo(seq):
		return
	case code != wire.NAKSequence:
		l.q.negative(answerInvalidRequest + answer(code-wire.NAKInvalidRequest))
	default:
		l.q.shard.counts.inc(rcvdSeqErr)
		if !l.recovering && l.tryAgain() {
			l.lost()
		}
	}
}
