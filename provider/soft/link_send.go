//go:build linux

package soft

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The sending half of the local path: own requests out, answers in.

// transmit: see path.
func (l *link) transmit() {
	// A link left to its bell is rung for slots only: who sends has to look for
	// the answers.
	l.s.heat(l)
	for w := l.q.toSend(); w != nil; w = l.q.toSend() {
		if !l.send(w) {
			break
		}
	}
	l.out.show()
	l.ring()
}

// showEvery is how many slots are handed over at once when there are many to send:
// it costs as much as writing several, but the first should not wait for the last.
const showEvery = 8

// ring considers the peer's bell once for all that was published.
func (l *link) ring() {
	if l.unrung {
		l.unrung = false
		l.wake(wakeSlots)
	}
}

// send publishes a request, as far as there is room, and reports whether all of
// it is out.
func (l *link) send(w *wqe) bool {
	var f frame
	for {
		dst, inArea, ok := l.room(l.payload(w))
		if !ok {
			return false
		}
		l.fragment(&f, w, uint32(len(dst)))
		if inArea {
			f.flags |= flagArea
		}
		// From the first byte on the peer may be pulling at the cache line that
		// it polls: nothing else is done between filling the slot and publishing.
		if !l.fill(dst, w) {
			// The memory was closed after the request was checked.
			l.q.spoil(w, verbs.StatusLocProtErr)
			return false
		}
		l.out.put(&f)
		if inArea || l.out.hidden == showEvery {
			l.out.show() // the peer copies one out while the next is copied in
		}
		l.seq++
		l.unrung = true
		l.q.begin(w)
		w.moved += uint32(len(dst))
		if f.flags&flagLast != 0 {
			l.q.sent(w, l.seq-1)
			return true
		}
	}
}

// payload is how many bytes of the request are still to be sent.
func (l *link) payload(w *wqe) uint32 {
	switch {
	case w.op == verbs.OpRead:
		return 0
	case w.op.Atomic():
		return atomicOperands
	}
	return w.total - w.moved
}

// atomicOperands is the size of an atomic's payload: swap or add, compare.
const atomicOperands = 16

// room reserves a slot, taking back what the peer has consumed if need be.
func (l *link) room(want uint32) (dst []byte, inArea, ok bool) {
	dst, inArea, ok = l.out.reserve(want)
	if ok {
		return dst, inArea, ok
	}
	if !l.out.free(uint32(l.peer.ack.Load())) {
		return nil, false, false // collect finds out, and ends the connection
	}
	return l.out.reserve(want)
}

// fragment describes the next length bytes of a request.
func (l *link) fragment(f *frame, w *wqe, length uint32) {
	f.op, f.flags, f.length = frameOf[w.op], 0, length
	f.addr, f.key, f.total = w.addr, w.key, w.total
	if w.moved == 0 {
		f.flags = flagFirst
	}
	if l.q.signaled(w) {
		f.flags |= flagAckReq
	}
	if w.expectsResponse() {
		f.flags |= flagLast
		return
	}
	if w.moved+length == w.total {
		f.flags |= flagLast
		if w.op == verbs.OpSendImm || w.op == verbs.OpWriteImm {
			f.flags |= flagImm
			f.imm = w.imm
		}
		if w.flags&verbs.SendSolicited != 0 {
			f.flags |= flagSolicited
		}
	}
}

var frameOf = [...]frameOp{
	verbs.OpWrite:       frameWrite,
	verbs.OpWriteImm:    frameWrite,
	verbs.OpSend:        frameSend,
	verbs.OpSendImm:     frameSend,
	verbs.OpRead:        frameRead,
	verbs.OpCompareSwap: frameCompareSwap,
	verbs.OpFetchAdd:    frameFetchAdd,
}

// fill copies what goes with a fragment, and reports whether the memory of the
// request was accessible.
func (l *link) fill(dst []byte, w *wqe) bool {
	switch {
	case len(dst) == 0:
		return true
	case w.op == verbs.OpCompareSwap:
		binary.BigEndian.PutUint64(dst, w.swap)
		binary.BigEndian.PutUint64(dst[8:], w.compare)
		return true
	case w.op == verbs.OpFetchAdd:
		binary.BigEndian.PutUint64(dst, w.compare)
		binary.BigEndian.PutUint64(dst[8:], 0)
		return true
	}
	return l.q.gather(dst, w, w.moved)
}

// resend: see path. The request still lies in its slot; the peer is told to try
// it again.
func (l *link) resend() {
	l.ctl.resend.Add(1)
	l.wake(wakeSlots)
}

// collect: see path.
func (l *link) collect() bool {
	l.watchSilence()
	ack := l.peer.ack.Load()
	if ack == l.ackSeen || !l.alive() {
		return false
	}
	// Responses were published before the acknowledgement that follows them.
	if l.q.reads > 0 {
		l.takeResponses()
	}
	head, syndrome := uint32(ack), uint8(ack>>32)
	progress := uint64(head - uint32(l.acked))
	if progress > l.seq-l.acked || !l.out.free(head) {
		l.violation()
		return true
	}
	negative := ack>>40 != l.ackSeen>>40
	l.ackSeen = ack
	l.acked += progress
	l.q.acknowledged(l.acked)
	if negative && l.alive() {
		l.refused(syndrome)
	}
	return true
}

// refused takes a negative answer. There is none without a request.
func (l *link) refused(syndrome uint8) {
	code := syndrome & aethCode
	switch {
	case !l.q.sq.outstanding():
		l.violation()
	case syndrome&^aethCode == aethRNR:
		l.q.notReady(code)
	case syndrome&^aethCode == aethNAK && code >= nakInvalidRequest && code <= nakOperation:
		l.q.negative(answerInvalidRequest + answer(code-nakInvalidRequest))
	default:
		l.violation()
	}
}

// takeResponses takes the data that answers READs and atomics.
func (l *link) takeResponses() bool {
	work := false
	var r request
	for l.q.reads > 0 && l.alive() {
		more, ok := l.rin.peek(&r)
		if !more {
			break
		}
		work = true
		if ok = ok && (r.op == frameReadData || r.op == frameAtomicResult); ok {
			ok = l.q.response(r.op, r.payload, r.last())
		}
		if !ok {
			l.violation()
			return true
		}
		l.rin.advance(&r.frame)
	}
	if work {
		l.ctl.responses.Store(l.rin.head)
		l.wake(wakeSlots)
	}
	return work
}
