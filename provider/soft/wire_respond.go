//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/internal/wire"

// respondBudget is how many packets of responses one link sends at a time: a
// large READ is not to overrun the peer's socket, or to hold up other links.
const respondBudget = 32

// respond sends what the peer is owed, in the order of its requests, and reports
// whether all of it is out: responses first, then the acknowledgement of what
// came after them, or the NAK of what did not.
func (l *wireLink) respond() (done bool) {
	for n := 0; l.q.serves(); n++ {
		k := l.kept.due()
		if k == nil {
			break
		}
		if n == respondBudget || !l.sendResponse(k) {
			return false
		}
	}
	switch {
	case l.nakDue:
		return l.sendNAK(l.expect)
	case l.ackDue:
		return !l.holds() && l.sendAck()
	}
	return true
}

// sendResponse sends the next packet of a response, or the NAK in its place, and
// reports whether there was room.
func (l *wireLink) sendResponse(k *kept) bool {
	if k.atomic {
		return l.sendResult(k)
	}
	length := min(k.rest.left, l.mtu)
	p, ok := l.packet(responseOpcode(k), int(length), number(l.base, k.next))
	if !ok {
		return false
	}
	if !l.q.readInto(p.Payload(), &k.rest) { // the region was closed meanwhile
		l.failed, l.nak = answerAccessError, wire.NAK(wire.NAKRemoteAccess)
		return l.sendNAK(k.next)
	}
	if h := p.AETH(); h != nil {
		h.Set(l.ack(), l.msn)
	}
	l.push(p)
	l.responded(k)
	return true
}

// responseOpcode begins with FIRST or ONLY wherever the response starts: that is
// right by the book, and rxe takes it at the beginning of its newest request.
func responseOpcode(k *kept) wire.Opcode {
	switch first, last := k.next == k.start, k.next == k.end; {
	case first && last:
		return wire.ReadResponseOnly
	case first:
		return wire.ReadResponseFirst
	case last:
		return wire.ReadResponseLast
	}
	return wire.ReadResponseMiddle
}

func (l *wireLink) sendResult(k *kept) bool {
	p, ok := l.packet(wire.AtomicAcknowledge, 0, number(l.base, k.next))
	if !ok {
		return false
	}
	p.AETH().Set(l.ack(), l.msn)
	p.AtomicAckETH().Set(k.result)
	l.push(p)
	l.responded(k)
	return true
}

// responded moves on past a packet of a response, which acknowledges what was
// requested before it.
func (l *wireLink) responded(k *kept) {
	if k.next >= l.plain {
		l.ackSent()
	}
	k.pending = k.next != k.end
	k.sent = k.sent || !k.pending && k.end == k.last
	k.next++
}

// sendAck acknowledges the last SEND or WRITE, and all before it.
func (l *wireLink) sendAck() bool {
	sent := l.sendAETH(l.ack(), l.plain-1)
	if sent {
		l.ackSent()
	}
	return sent
}

// sendNAK refuses the packet seq. If that ends the queue pair, it does now.
func (l *wireLink) sendNAK(seq uint64) bool {
	if !l.sendAETH(l.nak, seq) {
		return false
	}
	l.nakDue, l.ackDue = false, false
	if l.failed != answerAck {
		l.q.requestFailed(l.failed)
	}
	return true
}

func (l *wireLink) sendAETH(s wire.Syndrome, seq uint64) bool {
	p, ok := l.packet(wire.Acknowledge, 0, number(l.base, seq))
	if !ok {
		return false
	}
	p.AETH().Set(s, l.msn)
	l.push(p)
	return true
}
