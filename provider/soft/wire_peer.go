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
// and users, and one of them must not slow down the others. So a connection's losses
// reduce the window by no more than that connection's answers have added to it. The
// window is the sum of the parts of the connections and a common part. The common
// part is the initial window and the parts of closed connections. When all
// connections lose packets, each reduces the window by half of its packets in flight,
// which together is half of the window (compare RFC 6356, 3).
//
// Packets are counted by sequence numbers. The packets of a READ response count too,
// although they come from the peer.
type wirePeer struct {
	addr      netip.Addr
	users     int
	window    uint64 // packets that may be in flight, from leastFlight to mostFlight
	common    uint64 // packets of window that belong to no connection
	flight    uint64 // packets of all connections in flight
	threshold uint64 // up to here the window grows by each answered packet
	waiting   []*wireLink
}

// peer is the one of an address, for one more user.
func (s *wireShard) peer(addr netip.Addr) *wirePeer {
	p := s.peers[addr]
	if p == nil {
		p = &wirePeer{addr: addr, window: firstFlight, common: firstFlight, threshold: mostFlight}
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
	// packets that the answers of this connection have added to the peer's window
	part     uint64
	grown    uint64 // packets answered since part last grew
	answered uint64 // packets answered since the connection was made
	// recoveryEnd is how many packets have to be answered before another loss counts.
	// Losses of packets that were in flight together count once (RFC 9002, 7.3.2).
	recoveryEnd uint64
	// ownWindow is how many packets of this connection may be in flight, from leastFlight
	// to window. Its own losses reduce it, even if they do not reduce the peer's window.
	ownWindow uint64
	ownGrown  uint64 // packets answered since ownWindow last grew
}

// join adds the connection to those of a peer.
func (f *wireFlight) join(p *wirePeer) { f.peer, f.ownWindow = p, window }

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
	if p.window >= p.threshold {
		if f.grown += n; f.grown < p.window {
			return
		}
		f.grown, more = 0, 1
	}
	more = min(more, mostFlight-min(p.window, mostFlight))
	p.window += more
	f.part += more
}

// shrink counts a loss among the last packets of the connection, when flight packets
// were in flight. The connection may then have half as many in flight. The peer's
// window loses that half and its unused part, but no more than the connection's part
// and the common part.
func (f *wireFlight) shrink(flight uint64) {
	if f.answered < f.recoveryEnd {
		return
	}
	f.recoveryEnd = f.answered + flight
	f.ownWindow, f.ownGrown, f.grown = max(leastFlight, min(f.ownWindow, flight)/2), 0, 0
	p := f.peer
	used := min(p.window, p.flight-f.flight+flight)
	mine := min(used, flight)
	less := min(p.window-used+mine-mine/2, f.part+p.common, p.window-min(p.window, leastFlight))
	own := min(less, f.part)
	f.part -= own
	p.common -= less - own
	p.window -= less
	p.threshold = p.window
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
	l.peer.common += l.part
	l.part = 0
	if l.waits {
		l.waits = false
		i := slices.Index(l.peer.waiting, l)
		l.peer.waiting = slices.Delete(l.peer.waiting, i, i+1)
	}
	l.peer.resume()
}
