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

// addrState is the state of the validation of a peer's address.
type addrState uint8

const (
	// addrAssumed means that the address needs no validation. Every madConn starts in
	// this state. An active side stays in it, because its application has chosen the
	// address. A passive side leaves it in addHalfOpen, before it sends the first
	// message.
	addrAssumed addrState = iota
	// addrHalfOpen means that the address may be forged. The connection is in the table
	// of half-open connections of its listener. validate leads to addrValidated. If a
	// request of another connection needs the room, addHalfOpen of that connection leads
	// to addrEvicting.
	addrHalfOpen
	// addrEvicting means that the connection was chosen for eviction, and that a job in
	// the inbox of its channel will call evict. The connection is not in the table any
	// more, and counts in halfOpenTable.evicting. If the address is validated before the
	// job runs, validate leads to addrValidated, and the connection is not evicted.
	// Otherwise evict ends the connection, or leads to addrSpared.
	addrEvicting
	// addrSpared means that evict had nothing to end, because the connection had ended
	// in another way. The connection is not in the table. It exists until the
	// application closes the ID. validate leads to addrValidated.
	addrSpared
	// addrValidated means that the address is not forged. The connection counts in
	// sourceConns.validated.
	addrValidated
	// addrReleased means that the madConn was released. It is in no table and counts
	// nowhere. release enters this state from every other state. Nothing leaves it.
	addrReleased
)

// addrValidation is the validation of a peer's address. The multiplexer's lock guards it.
type addrValidation struct {
	addr     addrState
	half     halfOpen
	received int // number of messages received from the peer before its address was validated
	sent     int // number of messages sent to the peer before its address was validated
}

// trusted reports whether messages to the peer are not limited.
func (v *addrValidation) trusted() bool { return v.addr == addrAssumed || v.addr == addrValidated }

// maySend reports whether a message may be sent to the peer now. After that message it
// must still be possible to send the number of messages in the parameter reserve.
func (v *addrValidation) maySend(reserve int) bool {
	return v.trusted() || v.sent+reserve < amplification*v.received
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
	if c.trusted() {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// addHalfOpen adds a new connection to the half-open connections of its listener. It may
// choose another half-open connection for eviction. It returns false if there was no
// room for the new connection. In this case, too, it may have chosen a connection for
// eviction, so that there is room when the peer retransmits its request.
func (c *madConn) addHalfOpen() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	table, source, now := &c.listener.halfOpen, access.SourceOf(c.remote), c.mux.clock()
	victim, ok := table.room(source, !c.isLookup() && c.mux.sources.full(source), now)
	if victim != nil {
		table.remove(victim)
		table.evicting++
		old := victim.c
		old.addr = addrEvicting
		old.enqueue(jobInternal, old.evict)
		c.mux.m.WireCounts.Inc(counters.CMRequestEvicted)
	}
	if !ok {
		c.mux.m.WireCounts.Inc(counters.CMRequestDropped)
		return false
	}
	c.half.c = c
	c.addr = addrHalfOpen
	table.add(&c.half, source, now)
	if !c.isLookup() {
		c.mux.sources.opened(source)
	}
	return true
}

// evict ends a connection that was chosen for eviction. It does nothing if the address
// was validated after the choice. It also ends no connection that has already ended, or
// for which the application has called Notify.
func (c *madConn) evict() {
	c.mux.mu.Lock()
	chosen := c.addr == addrEvicting
	c.mux.mu.Unlock()
	switch {
	case !chosen:
	case c.state == madOrphan:
		c.release()
	case c.id.state == stateDREQReceived || c.id.state == stateEnded:
		c.spare()
	case c.id.state == stateEstablished:
		// The application has called Notify, because data has arrived from the peer. So
		// the address counts as validated.
		c.validate()
	default:
		c.id.requestWithdrawn()
	}
}

// spare records that a connection which was chosen for eviction is not evicted.
func (c *madConn) spare() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.endHalfOpen()
	c.addr = addrSpared
}

// validate records that the peer's address is validated.
func (c *madConn) validate() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	switch c.addr {
	case addrHalfOpen, addrEvicting, addrSpared:
		c.endHalfOpen()
		c.addr = addrValidated
		if !c.isLookup() {
			c.mux.sources.validated(access.SourceOf(c.remote))
		}
	}
}

// releaseAddr ends the validation because the connection is released. The caller holds
// the multiplexer's lock.
func (c *madConn) releaseAddr() {
	c.endHalfOpen()
	if c.addr != addrAssumed && !c.isLookup() {
		c.mux.sources.released(access.SourceOf(c.remote), c.addr == addrValidated)
	}
	c.addr = addrReleased
}

// endHalfOpen removes a connection that is half-open or chosen for eviction from the
// counts of its listener. The caller holds the multiplexer's lock, and changes the state.
func (c *madConn) endHalfOpen() {
	switch c.addr {
	case addrHalfOpen:
		c.listener.halfOpen.remove(&c.half)
	case addrEvicting:
		c.listener.halfOpen.evicting--
	}
}
