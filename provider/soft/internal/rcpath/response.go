//go:build linux

package rcpath

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
)

// respondBudget is how many response packets a connection sends in one call of
// shard.drive(). More could overflow the peer's socket or delay other connections. With
// half as many, READs of 1 MiB were 5 to 10 % slower.
const respondBudget = 64

// sendResponses sends the due responses in order. After them it sends the due NAK or
// acknowledgement. It returns false if it has to be called again.
func (c *Conn) sendResponses() (done bool) {
	for n := 0; c.q.IsServing(); n++ {
		res := c.resp.resources.nextPending()
		if res == nil {
			break
		}
		if n == respondBudget || !c.sendResponse(res) {
			return false
		}
	}
	if c.resp.nakState == nakDue {
		if !c.awaitsPoll() {
			return c.sendNAK(c.resp.expected)
		}
		if c.acks.due() && !c.delaysAck() {
			c.sendAck()
		}
		return false
	}
	return !c.acks.due() || !c.delaysAck() && c.sendAck()
}

// delaysAck reports whether the due acknowledgement is delayed in this call of
// shard.drive(). It is sent at once if the owner's turns are long, the owner may sleep,
// or the peer needs credits.
func (c *Conn) delaysAck() bool {
	return c.acks.delay(c.resp.dataEnd) && c.demux.MayDelayAcks() && c.credits.enough(c.resp.msn)
}

// sendResponse sends the next packet of a response, or a NAK if the memory is not
// accessible. A response that is repeated ends without a NAK. It returns false if the
// packets.Conn has no room.
func (c *Conn) sendResponse(res *respResource) bool {
	if res.atomic {
		return c.sendAtomicResponse(res)
	}
	length := min(res.unsent.Left, c.mtu)
	p, ok := c.newPacket(responseOpcode(res), int(length), c.resp.psn(res.next))
	if !ok {
		return false
	}
	// The memory region may have been closed after the READ was checked.
	if a := c.q.ReadInto(p.Payload(), &res.unsent); a != qp.OutcomeAck {
		if res.sent {
			// The peer has requested the READ again, perhaps just before the response arrived
			// that it waited for. It may then have said that it needs the memory no more.
			res.pending = false
			return true
		}
		c.resp.fail(a)
		return c.sendNAK(res.next)
	}
	if h := p.AETH(); h != nil {
		h.Set(c.ack(), c.resp.msn)
	}
	c.push(p)
	c.responseSent(res)
	return true
}

// responseOpcode returns the opcode of the next packet of a READ's response. Repeated
// parts begin with FIRST or ONLY too.
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

// sendAtomicResponse sends the response of an atomic. It returns false if the packets.Conn
// has no room.
func (c *Conn) sendAtomicResponse(res *respResource) bool {
	p, ok := c.newPacket(wire.AtomicAcknowledge, 0, c.resp.psn(res.next))
	if !ok {
		return false
	}
	p.AETH().Set(c.ack(), c.resp.msn)
	p.AtomicAckETH().Set(res.result)
	c.push(p)
	c.responseSent(res)
	return true
}

// responseSent records that the next packet of a response was sent.
func (c *Conn) responseSent(res *respResource) {
	if c.resp.responseSent(res) {
		c.acks.sent(c.resp.dataEnd)
	}
}

// sendAck acknowledges all executed requests up to the last SEND or WRITE packet. It
// returns false if the packets.Conn has no room.
func (c *Conn) sendAck() bool {
	sent := c.sendAETH(c.ack(), c.resp.dataEnd-1)
	if sent {
		c.acks.sent(c.resp.dataEnd)
	}
	return sent
}

// sendNAK sends the scheduled NAK for the packet seq. It returns false if the packets.Conn
// has no room. After a fatal NAK the queue pair fails.
func (c *Conn) sendNAK(seq uint64) bool {
	if !c.sendAETH(c.resp.nak, seq) {
		return false
	}
	if c.resp.awaitsMissing() {
		c.q.Counts().Inc(counters.OutOfSeqRequest)
		c.all.held.drop(c)
	}
	c.resp.nakState = nakSent
	c.acks.cancel()
	if c.resp.fatal != qp.OutcomeAck {
		c.q.RequestFailed(c.resp.fatal)
	}
	return true
}

// sendAETH sends an acknowledgement packet for the packet seq.
func (c *Conn) sendAETH(s wire.Syndrome, seq uint64) bool {
	p, ok := c.newPacket(wire.Acknowledge, 0, c.resp.psn(seq))
	if !ok {
		return false
	}
	p.AETH().Set(s, c.resp.msn)
	c.push(p)
	return true
}
