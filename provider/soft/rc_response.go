//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/internal/wire"

// respondBudget is how many response packets one connection sends in one call of drive.
// A large READ must not overflow the peer's socket, or delay other connections. The
// number is arbitrary.
const respondBudget = 32

// sendResponses sends due responses in the order of the peer's requests. Then it sends a
// due NAK or acknowledgement. It returns false if not all of them could be sent.
func (c *rcConn) sendResponses() (done bool) {
	for n := 0; c.q.isServing(); n++ {
		res := c.resources.nextPending()
		if res == nil {
			break
		}
		if n == respondBudget || !c.sendResponse(res) {
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

// sendResponse sends the next packet of a response, or a NAK if the memory is not
// accessible any more. It returns false if the packetConn has no room.
func (c *rcConn) sendResponse(res *respResource) bool {
	if res.atomic {
		return c.sendAtomicResponse(res)
	}
	length := min(res.unsent.left, c.mtu)
	p, ok := c.newPacket(responseOpcode(res), int(length), psnOf(c.peerBase, res.next))
	if !ok {
		return false
	}
	// The memory region was closed in the meantime.
	if !c.q.readInto(p.Payload(), &res.unsent) {
		c.fatalOutcome, c.nak = outcomeAccessError, wire.NAK(wire.NAKRemoteAccess)
		return c.sendNAK(res.next)
	}
	if h := p.AETH(); h != nil {
		h.Set(c.ack(), c.msn)
	}
	c.push(p)
	c.responseSent(res)
	return true
}

// responseOpcode returns the opcode of the next packet of a READ's response. A repeated
// response that starts in the middle begins with FIRST or ONLY too. rxe accepts that for
// its newest request.
func responseOpcode(res *respResource) wire.Opcode {
	switch first, last := res.next == res.start, res.next == res.end; {
	case first && last:
		return wire.ReadResponseOnly
	case first:
		return wire.ReadResponseFirst
	case last:
		return wire.ReadResponseLast
	}
	return wire.ReadResponseMiddle
}

// sendAtomicResponse sends the response of an atomic. It returns false if the packetConn
// has no room.
func (c *rcConn) sendAtomicResponse(res *respResource) bool {
	p, ok := c.newPacket(wire.AtomicAcknowledge, 0, psnOf(c.peerBase, res.next))
	if !ok {
		return false
	}
	p.AETH().Set(c.ack(), c.msn)
	p.AtomicAckETH().Set(res.result)
	c.push(p)
	c.responseSent(res)
	return true
}

// responseSent records that the next packet of a response was sent. The packet also
// acknowledges the requests before it.
func (c *rcConn) responseSent(res *respResource) {
	if res.next >= c.dataEnd {
		c.ackSent()
	}
	res.pending = res.next != res.end
	res.sent = res.sent || !res.pending && res.end == res.last
	res.next++
}

// sendAck acknowledges the last executed SEND or WRITE, and all requests before it.
func (c *rcConn) sendAck() bool {
	sent := c.sendAETH(c.ack(), c.dataEnd-1)
	if sent {
		c.ackSent()
	}
	return sent
}

// sendNAK sends a NAK for the packet seq. If the NAK ends the queue pair, the queue pair
// then enters the error state.
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

// sendAETH sends an acknowledgement packet with a syndrome for the packet seq.
func (c *rcConn) sendAETH(s wire.Syndrome, seq uint64) bool {
	p, ok := c.newPacket(wire.Acknowledge, 0, psnOf(c.peerBase, seq))
	if !ok {
		return false
	}
	p.AETH().Set(s, c.msn)
	c.push(p)
	return true
}
