//go:build linux

package soft

// This file bounds what a passive side sends, and how long it lives, before its peer
// has proven that it receives messages. Until then the source address of the request
// may be forged. A message with our communication ID is a proof, because the ID is
// random and was sent to that address only. So is data with the packet sequence
// number that this side has sent.

// amplification is how many bytes may be sent to an unproven peer for each byte
// received from it. All connection messages have the same length, so it is also a
// ratio of messages. RFC 9000, 8.1 has the same limit. Here it allows a reply, one
// repetition of the reply, and a refusal.
const amplification = 3

// A proof records what an unproven peer has received and sent. It is part of the
// carrier of a passive side. The exchange's lock guards it.
type proof struct {
	half     halfOpen
	received int  // messages received from the peer
	sent     int  // messages sent to the peer while it was unproven
	proven   bool // the peer has proven that it receives messages
	evicted  bool // the connection was chosen for eviction
}

// maySend reports whether a message may be sent to the peer now, such that more
// further messages are still allowed afterwards.
func (c *wireCarrier) maySend(more int) bool {
	return c.gate == nil || c.proven || c.sent+more < amplification*c.received
}

// mayRepeat reports whether the last message may be repeated without a request from
// the peer. One message stays reserved for a refusal.
func (c *wireCarrier) mayRepeat() bool {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	return c.maySend(1)
}

// serviceTimeout returns the code of the time after which the peer has to repeat its
// request. Each copy of the request allows this side to repeat its reply. The first
// times are short, 4.3 s and 17 s: with fewer copies, a connection might not open
// when replies are lost.
func (c *wireCarrier) serviceTimeout() uint8 {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.gate == nil || c.proven {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// takePlace adds a new carrier to the half-open connections of its listener, and
// reports whether there was room for it. It may choose another one for eviction.
func (c *wireCarrier) takePlace() bool {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	table, source, now := &c.gate.half, sourceOf(c.remote), c.x.clock()
	victim, room := table.room(source, now)
	if !room {
		c.x.counts.inc(cmRequestDropped)
		return false
	}
	if victim != nil {
		table.remove(victim)
		table.leaving++
		old := victim.c
		old.evicted = true
		old.leave(jobOwn, old.evict)
		c.x.counts.inc(cmRequestEvicted)
	}
	c.half.c = c
	table.add(&c.half, source, now)
	return true
}

// evict ends the connection. It does nothing if the peer or the application has
// confirmed the connection since it was chosen, or if the connection has ended and
// the application only has to be told.
func (c *wireCarrier) evict() {
	c.x.mu.Lock()
	proven := c.proven
	c.x.mu.Unlock()
	switch {
	case c.id == nil:
		c.drop()
	case proven || c.id.phase == phaseLeft || c.id.phase == phaseOver:
		c.stays()
	case c.id.phase == phaseEstablished:
		// The application has confirmed it with Notify.
		c.prove()
		c.stays()
	default:
		c.id.evicted()
	}
}

// stays cancels the eviction.
func (c *wireCarrier) stays() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.goes()
}

// goes removes the connection from the count of pending evictions. The caller holds
// the exchange's lock.
func (c *wireCarrier) goes() {
	if c.evicted {
		c.evicted = false
		c.gate.half.leaving--
	}
}

// prove records that the peer receives messages.
func (c *wireCarrier) prove() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.gate == nil || c.proven || c.closed {
		return
	}
	c.proven = true
	c.gate.half.remove(&c.half)
	c.x.admitted[sourceOf(c.remote)]++
}

// leavePlace removes the carrier from all counts. The caller holds the exchange's
// lock.
func (c *wireCarrier) leavePlace() {
	if c.gate == nil {
		return
	}
	c.gate.half.remove(&c.half)
	c.goes()
	if source := sourceOf(c.remote); c.proven {
		if c.x.admitted[source]--; c.x.admitted[source] == 0 {
			delete(c.x.admitted, source)
		}
	}
}
