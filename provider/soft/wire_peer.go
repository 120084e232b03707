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

// A wirePeer is a host that queue pairs of a shard talk to, with how many packets
// they may have under way to it, all together. RoCEv2 is made for networks that
// lose nothing; a socket does, when it is full (net.core.rmem_max is 208 KiB by
// default), and so do routers. So the number is halved when something got lost,
// and grows with what is answered, as TCP's window does (RFC 5681, 3.1).
//
// Packets are counted by sequences: those of a READ's response count as well,
// which come the other way.
type wirePeer struct {
	addr      netip.Addr
	users     int
	window    uint64 // packets that may be under way
	flight    uint64 // that are
	threshold uint64 // up to here the window grows by each answered packet
	answered  uint64 // packets, since the beginning
	grown     uint64 // answered packets, since it grew last
	calm      uint64 // until so many are answered, a loss is no news
	waiting   []*wireLink
}

// peer is the one of an address, for one more user.
func (s *wireShard) peer(addr netip.Addr) *wirePeer {
	p := s.peers[addr]
	if p == nil {
		p = &wirePeer{addr: addr, window: firstFlight, threshold: mostFlight}
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

// grow counts n answered packets, which are not under way any more. A window that
// was not used stays as it is: nothing is known of more than was tried.
func (p *wirePeer) grow(n uint64) {
	p.answered += n
	if 2*(p.flight+n) < p.window {
		return
	}
	if p.window < p.threshold {
		p.window = min(p.window+n, mostFlight)
		return
	}
	if p.grown += n; p.grown >= p.window {
		p.grown = 0
		p.window = min(p.window+1, mostFlight)
	}
}

// shrink: something got lost of a flight. What was under way together tells of the
// same loss.
func (p *wirePeer) shrink(flight uint64) {
	if p.answered < p.calm {
		return
	}
	p.window = max(leastFlight, min(p.window, flight)/2)
	p.threshold, p.grown = p.window, 0
	p.calm = p.answered + flight
}

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
	flight uint64
	waits  bool // among those of the peer that wait
}

// open reports whether n more sequences may be sent. One packet always may where
// none is under way, whatever the others do: a connection whose end is silent does
// not hold up the others for long.
func (l *wireLink) open(n uint64) bool {
	if l.seq-l.q.acked+n > window || l.inquired > 0 && l.flight > 0 {
		return false
	}
	if l.peer.room(n) || l.flight == 0 && n == 1 || l.peer.flight == 0 {
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
	return l.inquired > 0 || l.quiet >= min(ackEveryPackets, max(1, int(l.peer.window/4))) || l.peer.full(n)
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
	if l.waits {
		l.waits = false
		i := slices.Index(l.peer.waiting, l)
		l.peer.waiting = slices.Delete(l.peer.waiting, i, i+1)
	}
	l.peer.resume()
}
