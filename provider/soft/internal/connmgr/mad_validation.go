//go:build linux

package connmgr

import (
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// Address validation, as in RFC 9000, 8.1. The source address of a request may be
// forged. Until the address is validated, this file limits how many messages a passive
// side sends to the address, and how long the connection lives. Two events validate the
// address:
//
//   - A message arrives that has the communication ID of this side. This ID is random,
//     and was sent only to the address of the peer. So the sender of the message has
//     received it there.
//   - Data arrives whose first packet has the first packet sequence number that this
//     side has sent to the peer. This number is random too.

// amplification limits the bytes that are sent to a peer for each byte received from it,
// until the peer's address is validated (RFC 9000, 8.1). All messages have the same
// length, so for each received message three messages may be sent: a reply, one
// retransmission of the reply, and a refusal.
const amplification = 3

// addrValidation is the validation of a peer's address. It is part of the madConn of a
// passive side. The multiplexer's lock guards it.
type addrValidation struct {
	half halfOpen
	// number of messages received from the peer before its address was validated
	received  int
	sent      int  // number of messages sent to the peer before its address was validated
	validated bool // true once the peer's address is validated
	evicted   bool // true if the connection was chosen for eviction and has not ended yet
}

// maySend reports whether a message may be sent to the peer now. After that message it
// must still be possible to send the number of messages in the parameter reserve.
func (c *madConn) maySend(reserve int) bool {
	return c.listener == nil || c.validated || c.sent+reserve < amplification*c.received
}

// mayRetransmit reports whether the last message may be retransmitted although no copy
// of the peer's request has arrived. One message is kept in reserve for a refusal.
func (c *madConn) mayRetransmit() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	return c.maySend(1)
}

// serviceTimeout returns the service timeout for an MRA: the code of the time after
// which the peer retransmits its request. Before the address is validated, the number of
// copies of the request limits how often this side may retransmit its reply. So the
// times in the first two MRAs are short: 4.3 s and 17 s. Otherwise few copies would
// arrive, and a loss of replies could prevent the connection.
func (c *madConn) serviceTimeout() uint8 {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.listener == nil || c.validated {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// addHalfOpen adds a new connection to the half-open connections of its listener. It may
// choose another half-open connection for eviction. It returns false if there was no
// room for the new connection.
func (c *madConn) addHalfOpen() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	table, source, now := &c.listener.halfOpen, access.SourceOf(c.remote), c.mux.clock()
	victim, ok := table.room(source, now)
	if !ok {
		c.mux.m.WireCounts.Inc(counters.CMRequestDropped)
		return false
	}
	if victim != nil {
		table.remove(victim)
		table.evicting++
		old := victim.c
		old.evicted = true
		old.enqueue(jobInternal, old.evict)
		c.mux.m.WireCounts.Inc(counters.CMRequestEvicted)
	}
	c.half.c = c
	table.add(&c.half, source, now)
	return true
}

// evict ends a connection that was chosen for eviction. But there are three events that
// prevent the eviction if they have happened since the choice: the address was
// validated, the application has called Notify, or the connection has ended in another
// way.
func (c *madConn) evict() {
	c.mux.mu.Lock()
	validated := c.validated
	c.mux.mu.Unlock()
	switch {
	case c.id == nil:
		c.release()
	case validated || c.id.state == stateDREQReceived || c.id.state == stateEnded:
		c.cancelEviction()
	case c.id.state == stateEstablished:
		// The application has called Notify, because data has arrived from the peer. So
		// the address counts as validated.
		c.validate()
		c.cancelEviction()
	default:
		c.id.requestWithdrawn()
	}
}

// cancelEviction records that a connection which was chosen for eviction is not evicted.
func (c *madConn) cancelEviction() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.evictionDone()
}

// evictionDone reduces the number of pending evictions if the connection was chosen for
// eviction. The caller holds the multiplexer's lock.
func (c *madConn) evictionDone() {
	if c.evicted {
		c.evicted = false
		c.listener.halfOpen.evicting--
	}
}

// validate records that the peer's address is validated.
func (c *madConn) validate() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.listener == nil || c.validated || c.closed {
		return
	}
	c.validated = true
	c.listener.halfOpen.remove(&c.half)
	c.mux.admitted[access.SourceOf(c.remote)]++
}

// removeHalfOpen removes the connection from the table of half-open connections, from
// the number of pending evictions, and from the number of the source's admitted
// connections. The caller holds the multiplexer's lock.
func (c *madConn) removeHalfOpen() {
	if c.listener == nil {
		return
	}
	c.listener.halfOpen.remove(&c.half)
	c.evictionDone()
	if source := access.SourceOf(c.remote); c.validated {
		if c.mux.admitted[source]--; c.mux.admitted[source] == 0 {
			delete(c.mux.admitted, source)
		}
	}
}
