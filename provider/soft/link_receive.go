//go:build linux

package soft

import (
	"encoding/binary"
)

// The receiving half of the local path: the peer's requests in, answers out.

// Syndromes of the AETH (IBTA vol. 1, 9.3.5): a kind in the upper three bits, a
// timer or NAK code in the lower five.
const (
	aethRNR  = 1 << 5
	aethNAK  = 3 << 5
	aethCode = 0x1f

	nakInvalidRequest = 1
	nakOperation      = 3
)

// receive carries out the peer's requests, within a budget.
func (l *link) receive() bool {
	var r request
	n := 0
	for ; n < receiveBudget && l.alive(); n++ {
		if l.reading && !l.streamRead() {
			break
		}
		if l.stalled {
			if l.peer.resend.Load() == l.repeats {
				break
			}
			l.stalled = false
		}
		more, ok := l.in.peek(&r)
		if !more {
			break
		}
		if !ok {
			l.violation()
			return true
		}
		if !l.serve(&r) {
			break
		}
	}
	if n == 0 {
		return false
	}
	l.ring()
	// Answers that nobody waits for wait until there is nothing else to do, or
	// until the peer may run out of room.
	if l.ackDue || l.owed >= uint32(len(l.in.slots)/4) {
		l.acknowledge()
	}
	return true
}

// serve carries out one request and reports whether to go on with the next.
func (l *link) serve(r *request) bool {
	var a answer
	switch r.op {
	case frameCompareSwap, frameFetchAdd:
		dst, _, ok := l.responseRoom(8) // before it is carried out
		if !ok {
			return false
		}
		a = l.serveAtomic(r, dst)
	case frameRead:
		l.read, a = l.q.deliverRead(r)
		l.reading = a == answerAck
	default:
		a = l.q.deliver(r)
	}
	switch a {
	case answerAck:
		l.in.advance(&r.frame)
		l.owed++
		l.ackDue = l.ackDue || r.flags&(flagArea|flagAckReq) != 0
		return true
	case answerRNR:
		l.stalled = true
		l.q.shard.counts.notReady()
		l.repeats = l.peer.resend.Load()
		l.refuse(aethRNR | l.q.attr.MinRNRTimer)
	default:
		l.abort(a)
	}
	return false
}

// source implements path.
func (l *link) source() (accessSource, bool) { return l.end.peer, l.end.peer != accessSource{} }

// requestsWait implements path.
func (l *link) requestsWait() bool { return l.in.ready() }

// abort implements path.
func (l *link) abort(a answer) {
	l.refuse(aethNAK | (uint8(a-answerInvalidRequest) + nakInvalidRequest))
	l.q.requestFailed(a)
}

func (l *link) serveAtomic(r *request, dst []byte) answer {
	old, a := l.q.deliverAtomic(r)
	if a == answerAck {
		binary.NativeEndian.PutUint64(dst, old) // it goes to the memory as it is
		l.rout.publish(&frame{op: frameAtomicResult, flags: flagFirst | flagLast, length: 8})
		l.unrung = true
	}
	return a
}

// responseRoom reserves room on the response ring, taking back what the peer has
// consumed if need be.
func (l *link) responseRoom(want uint32) (dst []byte, inArea, ok bool) {
	if dst, inArea, ok = l.rout.reserve(want); !ok {
		if !l.rout.free(l.peer.responses.Load()) {
			l.violation()
			return nil, false, false
		}
		dst, inArea, ok = l.rout.reserve(want)
	}
	l.congested = !ok
	return dst, inArea, ok
}

// streamRead sends the data of the READ under way, and reports whether all of
// it is out.
func (l *link) streamRead() bool {
	defer l.ring()
	for l.reading {
		dst, inArea, ok := l.responseRoom(l.read.left)
		if !ok {
			return false
		}
		if !l.q.readInto(dst, &l.read) { // the region was closed meanwhile
			l.abort(answerAccessError)
			return false
		}
		f := frame{op: frameReadData, length: uint32(len(dst))}
		if l.read.left == 0 {
			f.flags = flagLast
			l.reading = false
		}
		if inArea {
			f.flags |= flagArea
		}
		l.rout.publish(&f)
		l.unrung = true
	}
	return true
}

// acknowledge answers all requests consumed so far. Only a peer that waits for
// answers is woken.
func (l *link) acknowledge() {
	l.owed, l.ackDue = 0, false
	l.answer()
	l.wake(wakeAll)
}

// refuse answers the request at hand with a negative syndrome.
func (l *link) refuse(syndrome uint8) {
	l.owed, l.ackDue = 0, false
	l.naks++
	l.syndrome = syndrome
	l.answer()
	l.wake(wakeSlots)
}

// answer stores the answer: count, syndrome, and the number of negative answers,
// by which the peer tells a new one from the last one that it has seen already.
func (l *link) answer() {
	l.ctl.ack.Store(uint64(l.in.head) | uint64(l.syndrome)<<32 | uint64(l.naks)<<40)
}

// offer: see path. The peer comes again when its RNR timer is up, as it has been
// told.
func (l *link) offer() {}

var _ path = (*link)(nil)
