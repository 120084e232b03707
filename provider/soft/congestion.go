//go:build linux

package soft

import (
	"net/netip"
	"slices"
)

const (
	// initialWindow is the congestion window of a new peer address, in packets. minWindow
	// and maxWindow are the smallest and the largest congestion window. The numbers are
	// arbitrary.
	initialWindow = 32
	minWindow     = 4
	maxWindow     = 1024
)

// A congestion is the congestion control of a shard for one peer address. It has the
// congestion window: how many packets the connections to that address may have in flight
// together. RoCEv2 is made for networks without loss. But a full socket drops packets
// (net.core.rmem_max is 208 KiB by default), and so do routers. So the window shrinks
// after a loss, and grows with acknowledged packets, like TCP's congestion window (RFC
// 5681, 3.1).
//
// A peer decides which losses this side sees: it can leave packets unacknowledged, or
// claim that it did not get them. The connections to one address may belong to several
// processes and users, and one of them must not slow down the others. So each connection
// has a part of the window: the packets by which its acknowledgements have enlarged the
// window, minus the packets by which its losses have reduced it. The rest of the window
// is the common part: the initial window, and the parts of connections that were closed.
// A connection's losses reduce the window by no more than the connection's part plus its
// equal share of the common part. The losses end slow start (RFC 5681, 3.1) for that
// connection only. When all connections lose packets, each connection reduces the window
// by half of its packets in flight. Together they halve the window (compare RFC 6356,
// 3).
//
// Packets are counted by sequence numbers. The packets of a READ response count too,
// although they come from the peer.
type congestion struct {
	addr  netip.Addr
	conns int // number of connections to the address
	// congestion window: packets that may be in flight, from minWindow to maxWindow
	window uint64
	// common part of the congestion window, in packets: window minus the sum of the
	// parts of the connections
	sharedPart int64
	inFlight   uint64 // packets in flight, of all connections to the address
	// connections that wait until the congestion window allows a packet, in the order of
	// their arrival
	waiting []*connCongestion
}

// acquireCongestion returns the congestion of an address, and counts one more connection
// to it.
func (s *qpDemux) acquireCongestion(addr netip.Addr) *congestion {
	g := s.congestions[addr]
	if g == nil {
		g = &congestion{addr: addr, window: initialWindow, sharedPart: initialWindow}
		if s.congestions == nil {
			s.congestions = make(map[netip.Addr]*congestion)
		}
		s.congestions[addr] = g
	}
	g.conns++
	return g
}

// releaseCongestion counts one connection less, and removes a congestion without
// connections.
func (s *qpDemux) releaseCongestion(g *congestion) {
	if g.conns--; g.conns == 0 {
		delete(s.congestions, g.addr)
	}
}

// allows reports whether the congestion window allows n more packets in flight.
func (g *congestion) allows(n uint64) bool { return g.inFlight+n <= g.window }

// fillsWindow reports whether n more packets would fill the congestion window.
func (g *congestion) fillsWindow(n uint64) bool { return !g.allows(n + 1) }

// resume calls onRoom of the connection that has waited longest, if the congestion window
// allows a packet. When that connection has sent its packets, it calls resume for the
// next one.
func (g *congestion) resume() {
	if len(g.waiting) == 0 || !g.allows(1) {
		return
	}
	f := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	f.waiting = false
	f.onRoom()
}

// A connCongestion is the congestion control of one connection.
type connCongestion struct {
	shared   *congestion
	inFlight uint64 // packets of this connection in flight
	waiting  bool   // true if the connection is in shared.waiting
	onRoom   func() // called when a connection that has waited may send again
	// part is the part of this connection in the shared congestion window: the packets
	// that its acknowledgements have added, minus the packets by which its losses have
	// reduced the window. It is negative when the losses have reduced the common part.
	part int64
	// ssthresh is the slow start threshold of this connection (RFC 5681, 3.1): a size of
	// the shared window in packets. Below it each acknowledged packet of this connection
	// adds one packet to the window.
	ssthresh uint64
	// packets acknowledged since this connection last enlarged the congestion window;
	// used above ssthresh only
	sinceGrowth uint64
	acked       uint64 // packets acknowledged since the connection was made
	// recoveryEnd is a value of acked. While acked is less than recoveryEnd, a further
	// loss is ignored, because the losses of packets that were in flight together count
	// as one loss (RFC 9002, 7.3.2).
	recoveryEnd uint64
	// ownWindow is how many packets of this connection may be in flight, from minWindow
	// to maxConnWindow. The losses of this connection reduce it, even if they do not
	// reduce the shared window.
	ownWindow      uint64
	ownSinceGrowth uint64 // packets acknowledged since ownWindow last grew
}

// join adds the connection to a congestion. The function onRoom is called when the
// connection has waited and may send again.
func (f *connCongestion) join(g *congestion, onRoom func()) {
	f.shared, f.ownWindow, f.ssthresh, f.onRoom = g, maxConnWindow, maxWindow, onRoom
}

// leave removes the connection from its congestion. It is called when the connection
// will send nothing more, and may be called more than once.
func (f *connCongestion) leave() {
	f.setInFlight(0)
	f.returnPart()
	if f.waiting {
		f.waiting = false
		i := slices.Index(f.shared.waiting, f)
		f.shared.waiting = slices.Delete(f.shared.waiting, i, i+1)
	}
	f.shared.resume()
}

// returnPart is called when a connection ends. It adds the connection's part of the
// congestion window to the common part. The connection's part is negative if its losses
// have reduced the window by more than the connection had added to it. In that case
// returnPart first enlarges the window by the absolute value, up to maxWindow. Without
// this enlargement, connections that lose packets and are closed, again and again, would
// use up the common part.
func (f *connCongestion) returnPart() {
	g := f.shared
	if f.part < 0 {
		back := min(uint64(-f.part), maxWindow-min(g.window, maxWindow))
		g.window += back
		f.part += int64(back)
	}
	g.sharedPart += f.part
	f.part = 0
}

// setInFlight sets the number of packets of the connection in flight.
func (f *connCongestion) setInFlight(n uint64) {
	f.shared.inFlight += n - f.inFlight
	f.inFlight = n
}

// allows reports whether n more packets of the connection may be sent. Whatever the
// other connections have in flight, a connection may have its equal share of the shared
// congestion window in flight, and at least one packet. So a connection with late
// acknowledgements does not delay the others for long. If the shared window does not
// allow the packets, the connection joins the queue of waiting connections, and its
// function onRoom is called when the window has room.
func (f *connCongestion) allows(n uint64) bool {
	if f.inFlight > 0 && f.inFlight+n > f.ownWindow {
		return false
	}
	g := f.shared
	if g.allows(n) || g.inFlight == 0 || f.inFlight+n <= max(1, g.window/uint64(g.conns)) {
		return true
	}
	if !f.waiting {
		f.waiting = true
		g.waiting = append(g.waiting, f)
	}
	return false
}

// fills reports whether n more packets of the connection would use up ownWindow or the
// shared congestion window.
func (f *connCongestion) fills(n uint64) bool {
	return f.shared.fillsWindow(n) || f.inFlight+n >= f.ownWindow
}

// quarterWindow returns a quarter of the packets that the connection may have in flight,
// and at least 1.
func (f *connCongestion) quarterWindow() int {
	return max(1, int(min(f.shared.window, f.ownWindow)/4))
}

// grow counts n acknowledged packets, which are not in flight any more. It does not
// enlarge the congestion window if less than half of the window was in use, because then
// the acknowledgements do not show that the network can carry more.
func (f *connCongestion) grow(n uint64) {
	g := f.shared
	f.acked += n
	if f.ownWindow < maxConnWindow {
		if f.ownSinceGrowth += n; f.ownSinceGrowth >= f.ownWindow {
			f.ownWindow, f.ownSinceGrowth = f.ownWindow+1, 0
		}
	}
	if 2*(g.inFlight+n) < g.window {
		return
	}
	more := n
	if g.window >= f.ssthresh {
		if f.sinceGrowth += n; f.sinceGrowth < g.window {
			return
		}
		f.sinceGrowth, more = 0, 1
	}
	more = min(more, maxWindow-min(g.window, maxWindow))
	g.window += more
	f.part += int64(more)
}

// shrink counts a loss. The parameter flight is the number of packets that the
// connection had in flight. From now on the connection may have half of this number in
// flight, and it leaves slow start. The shared congestion window shrinks too: by half of
// the connection's packets in flight, plus the part of the window that nobody was using.
// But it shrinks by no more than the connection's part plus the connection's equal share
// of the common part.
func (f *connCongestion) shrink(flight uint64) {
	if f.acked < f.recoveryEnd {
		return
	}
	f.recoveryEnd = f.acked + flight
	f.ownWindow, f.ownSinceGrowth, f.sinceGrowth = max(minWindow, min(f.ownWindow, flight)/2), 0, 0
	g := f.shared
	used := min(g.window, g.inFlight-f.inFlight+flight)
	mine := min(used, flight)
	// Without limits, the window would shrink by half of the connection's packets in
	// flight plus the unused part of the window. Two limits can make the reduction
	// smaller.
	lost := g.window - used + mine - mine/2
	// The first limit is the connection's part plus its equal share of the common part,
	// rounded up. If the part is negative, this limit is less than the share.
	conns := int64(g.conns)
	claim := max(0, f.part+(max(0, g.sharedPart)+conns-1)/conns)
	// The second limit is the difference between the window and minWindow.
	spare := g.window - min(g.window, minWindow)
	reduction := min(lost, uint64(claim), spare)
	f.part -= int64(reduction)
	g.window -= reduction
	// The threshold is half of the part of the window that was in use (RFC 5681, 3.1).
	// If all connections lose packets, the window shrinks to this size.
	f.ssthresh = max(minWindow, used/2)
}
