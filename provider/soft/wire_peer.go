//go:build linux

package soft

import (
	"net/netip"
	"slices"
)

const (
	// firstFlight is how many packets may be under way to a peer that nothing is
	// known of; leastFlight and mostFlight are what losses and answers can make
	// of that.
	firstFlight = 32
	leastFlight = 4
	mostFlight  = 1024
)

// A wirePeer is a host to which queue pairs of a shard are connected. It has the
// window: how many packets they may have in flight to the host together. RoCEv2 is
// made for networks without loss. But a full socket drops packets (net.core.rmem_max
// is 208 KiB by default), and so do routers. So the window shrinks after a loss, and
// grows with answered packets, like TCP's congestion window (RFC 5681, 3.1).
//
// A peer decides which losses we see: it can leave packets unanswered, or claim that
// it did not get them. The connections to one address may belong to several processes
// and users, and one of them must not slow down the others. So the window is the sum of
// the parts of the connections and a common part. The common part is the initial window
// and the parts of closed connections. A connection's losses reduce the window by no
// more than its part and its equal share of the common part, and they end slow start
// (RFC 5681, 3.1) for that connection only. When all connections lose packets, each
// reduces the window by half of its packets in flight, which together is half of the
// window (compare RFC 6356, 3).
//
// Packets are counted by sequence numbers. The packets of a READ response count too,
// although they come from the peer.
type wirePeer struct {
	addr    netip.Addr
	users   int
	window  uint64 // packets that may be in flight, from leastFlight to mostFlight
	common  int64  // packets: window less the sum of the connections' parts
	flight  uint64 // packets of all connections in flight
	waiting []*wireLink
}

// peer is the one of an address, for one more user.
func (s *wireShard) peer(addr netip.Addr) *wirePeer {
	p := s.peers[addr]
	if p == nil {
		p = &wirePeer{addr: addr, window: firstFlight, common: firstFlight}
		if s.peers == nil {
			s.peers = make(map[netip.Addr]*wirePeer)
		}
		s.peers[addr] = p
	}
	p.users++
	return p
}

func (s *wireShard) forget(p *wirePeer) {
	if p.users--; p.users == 0 {
		delete(s.peers, p.addr)
	}
}

// room reports whether n more packets may be under way.
func (p *wirePeer) room(n uint64) bool { return p.flight+n <= p.window }

// full reports whether n more packets are all that may be.
func (p *wirePeer) full(n uint64) bool { return !p.room(n + 1) }

// resume lets a connection go on that waits for room, the one that has waited
// for longest. When it has sent what it wants, it calls this in its turn.
func (p *wirePeer) resume() {
	if len(p.waiting) == 0 || !p.room(1) {
		return
	}
	l := p.waiting[0]
	p.waiting = slices.Delete(p.waiting, 0, 1)
	l.waits = false
	l.schedule()
}

// A wireFlight is a connection's part of what is under way to the peer.
type wireFlight struct {
	peer   *wirePeer
	flight uint64 // packets of this connection in flight
	waits  bool   // the connection is listed in peer.waiting
	// part is how many packets the answers of this connection have added to the peer's
	// window, less those by which its losses have reduced the window. It is negative when
	// the losses have reduced the common part.
	part int64
	// threshold is a size of the peer's window in packets. Below it each answered packet of
	// this connection adds one packet to the window (slow start).
	threshold uint64
	grown     uint64 // packets answered since part last grew
	answered  uint64 // packets answered since the connection was made
	// recoveryEnd is how many packets have to be answered before another loss counts.
	// Losses of packets that were in flight together count once (RFC 9002, 7.3.2).
	recoveryEnd uint64
	// ownWindow is how many packets of this connection may be in flight, from leastFlight
	// to window. Its own losses reduce it, even if they do not reduce the peer's window.
	ownWindow uint64
	ownGrown  uint64 // packets answered since ownWindow last grew
}

// join adds the connection to those of a peer.
func (f *wireFlight) join(p *wirePeer) {
	f.peer, f.ownWindow, f.threshold = p, window, mostFlight
}

// leave adds the part of the connection to the common part. If the part is negative, the
// window grows by as much first, up to mostFlight: connections that lose packets and
// close, again and again, must not use up the common part.
func (f *wireFlight) leave() {
	p := f.peer
	if f.part < 0 {
		back := min(uint64(-f.part), mostFlight-min(p.window, mostFlight))
		p.window += back
		f.part += int64(back)
	}
	p.common += f.part
	f.part = 0
}

// grow counts n answered packets, which are not in flight any more. It does not
// enlarge a window less than half of which was in use, because nothing is known about
// a larger one.
func (f *wireFlight) grow(n uint64) {
	p := f.peer
	f.answered += n
	if f.ownWindow < window {
		if f.ownGrown += n; f.ownGrown >= f.ownWindow {
			f.ownWindow, f.ownGrown = f.ownWindow+1, 0
		}
	}
	if 2*(p.flight+n) < p.window {
		return
	}
	more := n
	if p.window >= f.threshold {
		if f.grown += n; f.grown < p.window {
			return
		}
		f.grown, more = 0, 1
	}
	more = min(more, mostFlight-min(p.window, mostFlight))
	p.window += more
	f.part += int64(more)
}

// shrink counts a loss among the last packets of the connection, when flight packets
// were in flight. The connection may then have half as many in flight, and leaves slow
// start. The peer's window loses that half and its unused part, but no more than the
// connection's part and its share of the common part.
func (f *wireFlight) shrink(flight uint64) {
	if f.answered < f.recoveryEnd {
		return
	}
	f.recoveryEnd = f.answered + flight
	f.ownWindow, f.ownGrown, f.grown = max(leastFlight, min(f.ownWindow, flight)/2), 0, 0
	p := f.peer
	used := min(p.window, p.flight-f.flight+flight)
	mine := min(used, flight)
	// The first bound of less is the loss: half of the connection's packets in flight, and
	// the unused part of the window.
	lost := p.window - used + mine - mine/2
	// The second bound is the claim of the connection: its part, and its equal share of the
	// common part, rounded up. A negative part has used up as much of that share.
	users := int64(p.users)
	claim := max(0, f.part+(max(0, p.common)+users-1)/users)
	// The third bound keeps the window at leastFlight or above.
	spare := p.window - min(p.window, leastFlight)
	less := min(lost, uint64(claim), spare)
	f.part -= int64(less)
	p.window -= less
	// The window has this size after all connections have lost packets (RFC 5681, 3.1).
	f.threshold = max(leastFlight, used/2)
}

// open reports whether n more packets may be sent. A connection may always have an
// equal share of the window in flight, and at least one packet, so that a connection
// with late answers does not delay the others for long.
func (l *wireLink) open(n uint64) bool {
	if l.seq-l.q.acked+n > window || l.flight > 0 && (l.inquired > 0 || l.flight+n > l.ownWindow) {
		return false
	}
	p := l.peer
	if p.room(n) || p.flight == 0 || l.flight+n <= max(1, p.window/uint64(p.users)) {
		return true
	}
	if !l.waits {
		l.waits = true
		l.peer.waiting = append(l.peer.waiting, l)
	}
	return false
}

// wantsAck reports whether the packet at hand, of n sequences, is to be acknowledged
// although its message goes on: in time, that the window can move.
func (l *wireLink) wantsAck(n uint64) bool {
	most := min(l.peer.window, l.ownWindow)
	return l.inquired > 0 || l.quiet >= min(ackEveryPackets, max(1, int(most/4))) || l.peer.full(n) || l.flight+n >= l.ownWindow
}

// account follows the place in the sequence. What waits for a receive buffer is
// not under way.
func (l *wireLink) account() {
	flight := l.seq - l.q.acked
	if l.q.waitingRNR {
		flight = 0
	}
	l.peer.flight += flight - l.flight
	l.flight = flight
}

// ground ends the part of a connection that sends nothing more.
func (l *wireLink) ground() {
	l.peer.flight -= l.flight
	l.flight = 0
	l.leave()
	if l.waits {
		l.waits = false
		i := slices.Index(l.peer.waiting, l)
		l.peer.waiting = slices.Delete(l.peer.waiting, i, i+1)
	}
	l.peer.resume()
}
