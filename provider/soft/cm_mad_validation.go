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
type addrValidation struct {
	half      halfOpen
	received  int  // messages received from the peer
	sent      int  // messages sent to the peer while it was unproven
	validated bool // the peer has proven that it receives messages
	evicted   bool // the connection was chosen for eviction
}

// maySend reports whether a message may be sent to the peer now, such that more
// further messages are still allowed afterwards.
func (c *madConn) maySend(more int) bool {
	return c.listener == nil || c.validated || c.sent+more < amplification*c.received
}

// mayRetransmit reports whether the last message may be repeated without a request from
// the peer. One message stays reserved for a refusal.
func (c *madConn) mayRetransmit() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	return c.maySend(1)
}

// serviceTimeout returns the code of the time after which the peer has to repeat its
// request. Each copy of the request allows this side to repeat its reply. The first
// times are short, 4.3 s and 17 s: with fewer copies, a connection might not open
// when replies are lost.
func (c *madConn) serviceTimeout() uint8 {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.listener == nil || c.validated {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// addHalfOpen adds a new carrier to the half-open connections of its listener, and
// reports whether there was room for it. It may choose another one for eviction.
func (c *madConn) addHalfOpen() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	table, source, now := &c.listener.halfOpen, sourceOf(c.remote), c.mux.clock()
	victim, room := table.room(source, now)
	if !room {
		c.mux.counts.inc(cmRequestDropped)
		return false
	}
	if victim != nil {
		table.remove(victim)
		table.evicting++
		old := victim.c
		old.evicted = true
		old.enqueue(jobInternal, old.evict)
		c.mux.counts.inc(cmRequestEvicted)
	}
	c.half.c = c
	table.add(&c.half, source, now)
	return true
}

// evict ends the connection. It does nothing if the peer or the application has
// confirmed the connection since it was chosen, or if the connection has ended and
// the application only has to be told.
func (c *madConn) evict() {
	c.mux.mu.Lock()
	proven := c.validated
	c.mux.mu.Unlock()
	switch {
	case c.id == nil:
		c.release()
	case proven || c.id.state == stateDREQReceived || c.id.state == stateEnded:
		c.cancelEviction()
	case c.id.state == stateEstablished:
		// The application has confirmed it with Notify.
		c.validate()
		c.cancelEviction()
	default:
		c.id.requestWithdrawn()
	}
}

// stays cancels the eviction.
func (c *madConn) cancelEviction() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.evictionDone()
}

// goes removes the connection from the count of pending evictions. The caller holds
// the exchange's lock.
func (c *madConn) evictionDone() {
	if c.evicted {
		c.evicted = false
		c.listener.halfOpen.evicting--
	}
}

// prove records that the peer receives messages.
func (c *madConn) validate() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.listener == nil || c.validated || c.closed {
		return
	}
	c.validated = true
	c.listener.halfOpen.remove(&c.half)
	c.mux.admitted[sourceOf(c.remote)]++
}

// removeHalfOpen removes the carrier from all counts. The caller holds the exchange's
// lock.
func (c *madConn) removeHalfOpen() {
	if c.listener == nil {
		return
	}
	c.listener.halfOpen.remove(&c.half)
	c.evictionDone()
	if source := sourceOf(c.remote); c.validated {
		if c.mux.admitted[source]--; c.mux.admitted[source] == 0 {
			delete(c.mux.admitted, source)
		}
	}
}
