//go:build linux

package soft

// What a passive side may send, and how long it may stay, before its peer has shown
// that it receives what is sent to it. Until then the address that the request came
// from may be forged. A peer shows it with a message that names our communication id,
// which is random and was told to that address only, or with data that has the packet
// sequence number that it was told.

// amplification is how many bytes may go to a peer for each byte that came from it,
// until it has shown that it receives them; messages of connection management all have
// the same length. It is the limit of RFC 9000, 8.1. Here it is for a reply, the
// reply once more, and a refusal.
const amplification = 3

// A proof is what is known of the peer of a passive side. The exchange's lock covers
// it.
type proof struct {
	half     halfOpen
	received int  // messages from the peer
	sent     int  // to it, while it was not proven
	proven   bool // the peer receives what is sent to it
	evicted  bool // the connection is to be ended for want of room
}

// maySend reports whether a message may go to the peer now, and leaves the right to
// send so many more.
func (c *wireCarrier) maySend(more int) bool {
	return c.gate == nil || c.proven || c.sent+more < amplification*c.received
}

// mayRepeat reports whether the last message may be sent again without having been
// asked for. That leaves one, for a refusal.
func (c *wireCarrier) mayRepeat() bool {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	return c.maySend(1)
}

// serviceTimeout is the code of the time after which the peer is to ask again when it
// is put off. The first times are short, 4.3 s and 17 s, since the copies of a request
// entitle to repeat the reply: few of them, and a peer that has been put off for long,
// would not find each other when replies are lost.
func (c *wireCarrier) serviceTimeout() uint8 {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.gate == nil || c.proven {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// takePlace makes a new carrier one of the half-open ones of its listener, and reports
// whether there was room for it. Another one may have to go for it.
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

// evict ends the connection, unless its peer or the application has confirmed it since
// it was chosen, or it has come to an end that the application only has to learn of.
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
		c.prove() // The application has confirmed it: see id.Notify.
		c.stays()
	default:
		c.id.evicted()
	}
}

// stays takes back that the connection is to be ended.
func (c *wireCarrier) stays() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.goes()
}

// goes ends the account of a connection that is to be ended. The caller holds the
// exchange's lock.
func (c *wireCarrier) goes() {
	if c.evicted {
		c.evicted = false
		c.gate.half.leaving--
	}
}

// prove notes that the peer receives what is sent to it.
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

// leavePlace ends what is accounted of the carrier. The caller holds the exchange's
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
