//go:build linux

package rcpath

import (
	"net/netip"
	"slices"
)

const (
	// sizes of the congestion window in packets; arbitrary
	initialWindow = 32   // window for a new peer address
	minWindow     = 4    // smallest window
	maxWindow     = 1024 // largest window
)

// A congestion limits the packets in flight from a shard to one peer address (RFC 5681,
// 3.1). All connections to the address share its congestion window.
//
// A peer can pretend that packets were lost. This must not slow down connections to
// other peers at the address. So each connection owns a part of the window, which grows
// with its acknowledgements. The rest of the window is the common part. Losses of a
// connection take at most its own part and an equal share of the common part.
type congestion struct {
	addr  netip.Addr
	conns int // number of connections to the address
	// size of the congestion window in packets, from minWindow to maxWindow
	window uint64
	// common part of the window, in packets
	sharedPart int64
	// packets in flight of all connections; for a READ, the packets of its response
	inFlight uint64
	acked    uint64 // number of packets of all connections that were acknowledged
	// connections that wait for room in the window, longest wait first
	waiting []*connCongestion
}

// acquireCongestion returns the congestion of a peer address for a new connection to it.
func (cs *Conns) acquireCongestion(addr netip.Addr) *congestion {
	g := cs.congestions[addr]
	if g == nil {
		g = &congestion{addr: addr, window: initialWindow, sharedPart: initialWindow}
		if cs.congestions == nil {
			cs.congestions = make(map[netip.Addr]*congestion)
		}
		cs.congestions[addr] = g
	}
	g.conns++
	return g
}

// releaseCongestion undoes acquireCongestion for one connection. After the last
// connection of an address, it deletes the congestion.
func (cs *Conns) releaseCongestion(g *congestion) {
	if g.conns--; g.conns == 0 {
		delete(cs.congestions, g.addr)
	}
}

// allows reports whether the congestion window allows n more packets in flight.
func (c *congestion) allows(n uint64) bool { return c.inFlight+n <= c.window }

// fillsWindow reports whether n more packets would fill the congestion window.
func (c *congestion) fillsWindow(n uint64) bool { return !c.allows(n + 1) }

// resume calls onRoom of the connection that has waited longest, if the window has room.
// This connection sends packets, and then calls resume() again.
func (c *congestion) resume() {
	if len(c.waiting) == 0 || !c.allows(1) {
		return
	}
	f := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	f.waiting = false
	f.conn.onRoom()
}

// A connCongestion is the congestion control of one connection.
type connCongestion struct {
	shared   *congestion
	inFlight uint64 // packets of this connection in flight
	waiting  bool   // true if the connection is in shared.waiting
	conn     roomWaiter
	// number of packets by which this connection has enlarged the shared window; negative
	// if its losses have made the window smaller
	part int64
	// slow start threshold (RFC 5681, 3.1): below this size, the shared window grows by
	// one packet for each acknowledged packet
	ssthresh uint64
	// number of packets acknowledged since this connection last enlarged the shared window;
	// only counted while the window is at least ssthresh
	sinceGrowth uint64
	acked       uint64 // number of packets acknowledged since the connection was made
	// Losses are ignored until the field acked reaches recoveryEnd. So all losses of one
	// flight count once (RFC 9002, 7.3.2).
	recoveryEnd uint64
	// limit of this connection's packets in flight, from minWindow to maxConnWindow
	ownWindow      uint64
	ownSinceGrowth uint64 // packets acknowledged since ownWindow last grew
}

// A roomWaiter is a connection that waits for room in the congestion window.
type roomWaiter interface {
	// onRoom is called when the connection has waited and may send again.
	onRoom()
}

// join adds the connection to a congestion.
func (c *connCongestion) join(g *congestion, conn roomWaiter) {
	c.shared, c.ownWindow, c.ssthresh, c.conn = g, maxConnWindow, maxWindow, conn
}

// leave ends the congestion control of the connection, whose packets no longer count as
// in flight. It may be called more than once.
func (c *connCongestion) leave() {
	c.setInFlight(0)
	c.returnPart()
	if c.waiting {
		c.waiting = false
		i := slices.Index(c.shared.waiting, c)
		c.shared.waiting = slices.Delete(c.shared.waiting, i, i+1)
	}
	c.shared.resume()
}

// returnPart is called when a connection ends. Packets that the connection has added to
// the shared window stay there. Packets that its losses have removed are added again, up
// to maxWindow.
func (c *connCongestion) returnPart() {
	g := c.shared
	if c.part < 0 {
		back := min(uint64(-c.part), maxWindow-min(g.window, maxWindow))
		g.window += back
		c.part += int64(back)
	}
	g.sharedPart += c.part
	c.part = 0
}

// setInFlight sets the number of packets of the connection in flight.
func (c *connCongestion) setInFlight(n uint64) {
	c.shared.inFlight += n - c.inFlight
	c.inFlight = n
}

// allows reports whether the connection may send n more packets. If the window is full,
// each connection may have an equal share of it in flight. A connection that needs more
// has to wait for onRoom.
func (c *connCongestion) allows(n uint64) bool {
	if c.inFlight > 0 && c.inFlight+n > c.ownWindow {
		return false
	}
	g := c.shared
	if g.allows(n) || g.inFlight == 0 || c.inFlight+n <= max(1, g.window/uint64(g.conns)) {
		return true
	}
	if !c.waiting {
		c.waiting = true
		g.waiting = append(g.waiting, c)
	}
	return false
}

// fills reports whether n more packets would use up ownWindow or the shared window.
func (c *connCongestion) fills(n uint64) bool {
	return c.shared.fillsWindow(n) || c.inFlight+n >= c.ownWindow
}

// quarterWindow returns a quarter of the packets that may be in flight, at least 1.
func (c *connCongestion) quarterWindow() int {
	return max(1, int(min(c.shared.window, c.ownWindow)/4))
}

// grow counts n acknowledged packets. The shared window does not grow if less than half
// of it was in use.
func (c *connCongestion) grow(n uint64) {
	g := c.shared
	c.acked += n
	g.acked += n
	if c.ownWindow < maxConnWindow {
		if c.ownSinceGrowth += n; c.ownSinceGrowth >= c.ownWindow {
			c.ownWindow, c.ownSinceGrowth = c.ownWindow+1, 0
		}
	}
	if 2*(g.inFlight+n) < g.window {
		return
	}
	more := n
	if g.window >= c.ssthresh {
		if c.sinceGrowth += n; c.sinceGrowth < g.window {
			return
		}
		c.sinceGrowth, more = 0, 1
	}
	more = min(more, maxWindow-min(g.window, maxWindow))
	g.window += more
	c.part += int64(more)
}

// shrink is called after a loss. It reduces the window. The parameter flight is the
// number of packets that the connection had in flight.
func (c *connCongestion) shrink(flight uint64) {
	if c.acked < c.recoveryEnd {
		return
	}
	c.recoveryEnd = c.acked + flight
	c.ownWindow, c.ownSinceGrowth, c.sinceGrowth = max(minWindow, min(c.ownWindow, flight)/2), 0, 0
	g := c.shared
	used := min(g.window, g.inFlight-c.inFlight+flight)
	mine := min(used, flight)
	// lost is the number of packets by which the window would shrink without the limits
	// below. The new window would then be the number of packets in flight, less half of the
	// packets of this connection.
	lost := g.window - used + mine - mine/2
	// A connection may remove only its own part and an equal share of the common part.
	conns := int64(g.conns)
	claim := max(0, c.part+(max(0, g.sharedPart)+conns-1)/conns)
	// The window must not become smaller than minWindow.
	spare := g.window - min(g.window, minWindow)
	reduction := min(lost, uint64(claim), spare)
	c.part -= int64(reduction)
	g.window -= reduction
	// The threshold is half of the packets in flight (RFC 5681, 3.1).
	c.ssthresh = max(minWindow, used/2)
}
