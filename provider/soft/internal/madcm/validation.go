//go:build linux

package madcm

import (
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// The source address of a request may be forged. Until the address is validated, this
// side sends only few messages to it (RFC 9000, 8.1). There are two ways to validate an
// address:
//
//   - A message from the address contains the communication ID of this side. This ID is
//     random, and only the host at the address has received it.
//   - The data from the address begins with the first packet sequence number that this
//     side expects. This number is random too.

// amplification is the number of messages that may be sent for each message that has
// arrived from an address that is not validated (RFC 9000, 8.1).
const amplification = 3

// addrState is the state of the validation of a peer's address.
type addrState uint8

const (
	// addrAssumed means that the address needs no validation. It is the first state of every
	// madConn. The active side stays in it, because its application has chosen the address.
	// On the passive side, addHalfOpen leads to addrHalfOpen.
	addrAssumed addrState = iota
	// addrHalfOpen means that the address may be forged. The connection is in the
	// halfOpenTable of its listener. validate() leads to addrValidated. If the connection is
	// chosen for eviction, its state changes to addrEvicting.
	addrHalfOpen
	// addrEvicting means that the connection was chosen for eviction, and that a queued job
	// will call evict(). The connection counts in halfOpenTable.evicting. validate() leads to
	// addrValidated. evict() ends the connection or leads to addrSpared.
	addrEvicting
	// addrSpared means that the connection had ended before evict() was called, so
	// evict() had no effect. The application has not closed the ID. validate() leads to
	// addrValidated.
	addrSpared
	// addrValidated means that the address is not forged. The connection is counted in
	// sourceConns.validated.
	addrValidated
	// addrReleased is the last state. The madConn was released, and is no longer counted
	// anywhere. release() leads here from every state.
	addrReleased
)

// addrValidation has the state of the validation of a peer's address. The multiplexer's
// lock guards it.
type addrValidation struct {
	addr     addrState
	half     halfOpen
	received int // number of messages received from the peer before its address was validated
	sent     int // number of messages sent to the peer before its address was validated
}

// trusted reports whether this side may send any number of messages to the peer.
func (v *addrValidation) trusted() bool { return v.addr == addrAssumed || v.addr == addrValidated }

// maySend reports whether one message may be sent to the peer now, and as many later ones
// as the parameter reserve says.
func (v *addrValidation) maySend(reserve int) bool {
	return v.trusted() || v.sent+reserve < amplification*v.received
}

// mayRetransmit reports whether the last message may be retransmitted now. It keeps one
// message in reserve, because this side may have to send a REJ.
func (c *madConn) mayRetransmit() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	return c.maySend(1)
}

// serviceTimeout returns the code of the service timeout in an MRA. For a half-open peer,
// the first timeouts are short: 4.3 s and 17 s.
func (c *madConn) serviceTimeout() uint8 {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.trusted() {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// addHalfOpen adds a connection to the halfOpenTable of its listener. It returns false
// if there is no room. In both cases it may evict another connection. The parameter lookup
// says whether the connection is for a SIDR request. The caller holds the multiplexer's
// lock.
func (c *madConn) addHalfOpen(lookup bool) bool {
	table, source, now := &c.listener.halfOpen, access.SourceOf(c.remote), c.mux.clock()
	victim, ok := table.room(source, !lookup && c.mux.sources.full(source), now)
	if victim != nil {
		table.remove(victim)
		table.evicting++
		old := victim.c
		old.addr = addrEvicting
		old.enqueue(job{kind: jobInternal, conn: old, run: func(j *job) { j.conn.evict() }})
		c.mux.Counts.Inc(counters.CMRequestEvicted)
	}
	if !ok {
		c.mux.Counts.Inc(counters.CMRequestDropped)
		return false
	}
	c.half.c, c.half.proven = c, c.mux.proven.has(c.remote, now)
	c.addr = addrHalfOpen
	table.add(&c.half, source, now)
	if !lookup {
		c.mux.sources.opened(source)
	}
	return true
}

// evict ends a connection that was chosen for eviction. It does not end the connection
// in three cases: the address of the peer is validated by now, the connection has ended,
// or the application has called Notify.
func (c *madConn) evict() {
	c.mux.mu.Lock()
	chosen := c.addr == addrEvicting
	c.mux.mu.Unlock()
	switch {
	case !chosen:
	case c.state == madOrphan:
		c.release()
	case c.id.State() == connmgr.StateDREQReceived || c.id.State() == connmgr.StateEnded:
		c.spare()
	case c.id.State() == connmgr.StateEstablished:
		// The application has called Notify, because data of the peer has arrived. So the address
		// is valid.
		c.validate()
	default:
		c.id.Withdraw()
	}
}

// spare records that the connection had ended before evict() was called.
func (c *madConn) spare() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.endHalfOpen()
	c.addr = addrSpared
}

// validate records that the peer's address is not forged.
func (c *madConn) validate() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	switch c.addr {
	case addrHalfOpen, addrEvicting, addrSpared:
		c.endHalfOpen()
		c.addr = addrValidated
		if !c.isLookup() {
			c.mux.sources.validated(access.SourceOf(c.remote))
			c.mux.proven.add(c.remote, c.mux.clock())
		}
	}
}

// releaseAddr removes a released connection from all counts. The caller holds the
// multiplexer's lock.
func (c *madConn) releaseAddr() {
	c.endHalfOpen()
	if c.addr != addrAssumed && !c.isLookup() {
		c.mux.sources.released(access.SourceOf(c.remote), c.addr == addrValidated)
	}
	c.addr = addrReleased
}

// endHalfOpen removes a connection from the halfOpenTable of its listener. The caller
// holds the multiplexer's lock, and must set a new state.
func (c *madConn) endHalfOpen() {
	switch c.addr {
	case addrHalfOpen:
		c.listener.halfOpen.remove(&c.half)
	case addrEvicting:
		c.listener.halfOpen.evicting--
	}
}
