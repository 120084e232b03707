//go:build linux

package soft

import (
	"container/heap"
	"hash/maphash"
	"net/netip"
	"time"
)

// A halfOpen is a request for a connection, or for a datagram queue pair, whose sender
// has not shown yet that it receives what is sent to it: the source address may be
// forged. The exchange's lock covers it.
type halfOpen struct {
	c          *wireCarrier
	since      time.Time
	source     *halfOpenSource // nil while it is in no table
	prev, next *halfOpen       // of the source, the oldest first
}

// A halfOpenSource has the half-open connections of one source; see sourceOf.
type halfOpenSource struct {
	key            netip.Addr
	count          int
	oldest, newest *halfOpen
	index          int // in the heap
}

// A halfOpenTable has the half-open connections of one listener. Their number is
// bounded, for all sources together and for each, because anybody can ask for
// connections in the name of any number of addresses and cost memory with each.
type halfOpenTable struct {
	most, mostPerSource int
	total               int
	sources             map[netip.Addr]*halfOpenSource
	busiest             halfOpenHeap
	leaving             int // connections that were taken out to be ended, and are not yet
}

// graceTime is how long a half-open connection is safe from the requests of its own
// source: a peer that asks for many connections at once has the later requests
// wait, and does not lose the earlier ones. The figure is arbitrary. It is longer
// than the first repetition of a lost reply takes (256 ms), and short beside the time
// for which a peer repeats its request (74 s).
const graceTime = time.Second

func newHalfOpenTable(cfg *Config) halfOpenTable {
	return halfOpenTable{
		most: cfg.MaxHalfOpen, mostPerSource: cfg.MaxHalfOpenPerAddress,
		sources: make(map[netip.Addr]*halfOpenSource),
	}
}

// room reports whether a request from a source may be taken, and which half-open
// connection has to go for it, if one has to.
//
// When the table is full, that is the oldest one of the source that has the most. A
// source that would have the most itself, or has as many as one may have, waits for
// room, but that its own oldest one goes when it is older than graceTime. So a flood
// in the name of some addresses is a burden to these addresses, and most of it is
// dropped; and a flood in the name of very many leaves each request as much time as
// the table holds.
func (t *halfOpenTable) room(source netip.Addr, now time.Time) (victim *halfOpen, ok bool) {
	own := t.sources[source]
	full := t.total >= t.most
	switch {
	case t.leaving >= t.most:
		// The channels have not ended the evicted connections yet, whose memory is
		// still in use.
		return nil, false
	case own != nil && (own.count >= t.mostPerSource || full && own.count+1 >= t.busiest[0].count):
		if now.Sub(own.oldest.since) <= graceTime {
			return nil, false
		}
		return own.oldest, true
	case full:
		return t.busiest[0].oldest, true
	}
	return nil, true
}

// add takes a connection in.
func (t *halfOpenTable) add(h *halfOpen, source netip.Addr, now time.Time) {
	s := t.sources[source]
	if s == nil {
		s = &halfOpenSource{key: source}
		t.sources[source] = s
		heap.Push(&t.busiest, s)
	}
	h.source, h.since, h.prev = s, now, s.newest
	if s.newest != nil {
		s.newest.next = h
	} else {
		s.oldest = h
	}
	s.newest = h
	s.count++
	t.total++
	heap.Fix(&t.busiest, s.index)
}

// remove takes a connection out, if it is in.
func (t *halfOpenTable) remove(h *halfOpen) (was bool) {
	s := h.source
	if s == nil {
		return false
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		s.oldest = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		s.newest = h.prev
	}
	h.source, h.prev, h.next = nil, nil, nil
	s.count--
	t.total--
	if s.count > 0 {
		heap.Fix(&t.busiest, s.index)
		return true
	}
	heap.Remove(&t.busiest, s.index)
	delete(t.sources, s.key)
	return true
}

// hashSource is a hash of the source of a datagram.
func hashSource(seed maphash.Seed, from netip.Addr) uint64 {
	b := sourceOf(from).As16()
	return maphash.Bytes(seed, b[:])
}

// sourceOf is what counts as one source: an IPv4 address, and of IPv6 the 64 bits of
// the network, because a host may have all addresses of its network (RFC 4291,
// 2.5.4).
func sourceOf(addr netip.Addr) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr
	}
	p, _ := addr.Prefix(64) // It fails for an invalid address only.
	return p.Addr()
}

// A halfOpenHeap has the source with the most connections first; of those with as
// many, the one with the oldest.
type halfOpenHeap []*halfOpenSource

// The methods of heap.Interface.

func (h halfOpenHeap) Len() int { return len(h) }

func (h halfOpenHeap) Less(i, j int) bool {
	if h[i].count != h[j].count {
		return h[i].count > h[j].count
	}
	return h[i].oldest != nil && h[j].oldest != nil && h[i].oldest.since.Before(h[j].oldest.since)
}

func (h halfOpenHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *halfOpenHeap) Push(x any) {
	s := x.(*halfOpenSource)
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *halfOpenHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
