//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/internal/wire"

// respondBudget is how many packets of responses one link sends at a time: a
// large READ is not to overrun the peer's socket, or to hold up other links.
const respondBudget = 32

// respond sends what the peer is owed, in the order of its requests, and reports
// whether all of it is out: responses first, then the acknowledgement of what
// came after them, or the NAK of what did not.
func (c *rcConn) sendResponses() (done bool) {
	for n := 0; c.q.isServing(); n++ {
		k := c.resources.nextPending()
		if k == nil {
			break
		}
		if n == respondBudget || !c.sendResponse(k) {
			return false
		}
	}
	switch {
	case c.nakDue:
		return c.sendNAK(c.expected)
	case c.ackDue:
		return !c.delaysAck() && c.sendAck()
	}
	return true
}

// sendResponse sends the next packet of a response, or the NAK in its place, and
// reports whether there was room.
func (c *rcConn) sendResponse(k *respResource) bool {
	if k.atomic {
		return c.sendAtomicResponse(k)
	}
	length := min(k.unsent.left, c.mtu)
	p, ok := c.newPacket(responseOpcode(k), int(length), psnOf(c.peerBase, k.next))
	if !ok {
		return false
	}
	if !c.q.readInto(p.Payload(), &k.unsent) { // the region was closed meanwhile
		c.fatalOutcome, c.nak = outcomeAccessError, wire.NAK(wire.NAKRemoteAccess)
		return c.sendNAK(k.next)
	}
	if h := p.AETH(); h != nil {
		h.Set(c.ack(), c.msn)
	}
	c.push(p)
	c.responseSent(k)
	return true
}

// responseOpcode begins with FIRST or ONLY wherever the response starts: that is
// right by the book, and rxe takes it at the beginning of its newest request.
func responseOpcode(k *respResource) wire.Opcode {
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

func (c *rcConn) sendAtomicResponse(k *respResource) bool {
	p, ok := c.newPacket(wire.AtomicAcknowledge, 0, psnOf(c.peerBase, k.next))
	if !ok {
		return false
	}
	p.AETH().Set(c.ack(), c.msn)
	p.AtomicAckETH().Set(k.result)
	c.push(p)
	c.responseSent(k)
	return true
}

// responded moves on past a packet of a response, which acknowledges what was
// requested before it.
func (c *rcConn) responseSent(k *respResource) {
	if k.next >= c.dataEnd {
		c.ackSent()
	}
	k.pending = k.next != k.end
	k.sent = k.sent || !k.pending && k.end == k.last
	k.next++
}

// sendAck acknowledges the last SEND or WRITE, and all before it.
func (c *rcConn) sendAck() bool {
	sent := c.sendAETH(c.ack(), c.dataEnd-1)
	if sent {
		c.ackSent()
	}
	return sent
}

// sendNAK refuses the packet seq. If that ends the queue pair, it does now.
func (c *rcConn) sendNAK(seq uint64) bool {
	if !c.sendAETH(c.nak, seq) {
		return false
	}
	c.nakDue, c.ackDue = false, false
	if c.fatalOutcome != outcomeAck {
		c.q.requestFailed(c.fatalOutcome)
	}
	return true
}

func (c *rcConn) sendAETH(s wire.Syndrome, seq uint64) bool {
	p, ok := c.newPacket(wire.Acknowledge, 0, psnOf(c.peerBase, seq))
	if !ok {
		return false
	}
	p.AETH().Set(s, c.msn)
	c.push(p)
	return true
}
