//go:build linux

package soft

import (
	"container/heap"
	"container/list"
	"hash/maphash"
	"net/netip"
	"time"
)

// A halfOpen is a connection or lookup whose peer has not yet proven that it receives
// messages, so that its source address may be forged. The exchange's lock guards it.
type halfOpen struct {
	c      *madConn
	since  time.Time
	source *halfOpenSource // source in the table; nil if the halfOpen is in no table
	// The elements of this connection in halfOpenSource.byAge and halfOpenTable.byAge.
	inSource, inTable *list.Element
}

// A halfOpenSource has the half-open connections of one source; see sourceOf.
type halfOpenSource struct {
	key   netip.Addr
	count int
	byAge list.List // of *halfOpen, oldest first; not empty
	index int       // position in halfOpenTable.busiest
}

// A halfOpenTable has the half-open connections of one listener. Their number is
// bounded, in total and for each source, because anybody can send requests with any
// number of forged source addresses, and each takes memory.
type halfOpenTable struct {
	max, maxPerSource int
	total             int
	sources           map[netip.Addr]*halfOpenSource
	busiest           halfOpenHeap
	evicting          int       // connections that were removed for eviction, and have not ended yet
	byAge             list.List // of *halfOpen, oldest first
}

// A peer that requests several connections at once may be the busiest source until it
// has confirmed them, which takes a round trip. So a source with at most burst half-open
// connections does not lose one that is younger than burstTime to another source, if
// there is an older one. Both numbers are arbitrary.
const (
	burstSize = 16
	burstTime = 250 * time.Millisecond
)

// graceTime is how long a half-open connection can not be evicted by requests of its
// own source. A peer that requests many connections at once then has its later
// requests dropped for a while, and does not lose the earlier ones. The number is
// arbitrary. It is longer than the first repetition of a lost reply takes (256 ms),
// and much shorter than the time for which a peer repeats its request (74 s).
const graceTime = time.Second

func newHalfOpenTable(cfg *Config) halfOpenTable {
	return halfOpenTable{
		max: cfg.MaxHalfOpen, maxPerSource: cfg.MaxHalfOpenPerAddress,
		sources: make(map[netip.Addr]*halfOpenSource),
	}
}

// room reports whether a request from a source may be taken, and returns the
// half-open connection that has to be evicted for it, or nil.
//
// When the table is full, the victim is the oldest connection of the source with the
// most connections, unless it belongs to a burst: then it is the oldest of all. A source
// that would then have the most connections itself, or has reached the limit of one
// source, evicts its own oldest connection if that is older than graceTime; otherwise
// the request is dropped. So a flood from few addresses affects only these addresses,
// and most of it is dropped. In a flood from very many addresses, each request keeps its
// place for as long as the flood takes to fill the table.
func (t *halfOpenTable) room(source netip.Addr, now time.Time) (victim *halfOpen, ok bool) {
	own := t.sources[source]
	full := t.total >= t.max
	switch {
	case t.evicting >= t.max:
		// The channels have not ended the evicted connections yet, so their memory is still
		// in use.
		return nil, false
	case own != nil && (own.count >= t.maxPerSource || full && own.count+1 >= t.busiest[0].count):
		if now.Sub(own.oldest().since) <= graceTime {
			return nil, false
		}
		return own.oldest(), true
	case full && t.busiest[0].count <= burstSize && now.Sub(t.busiest[0].oldest().since) < burstTime:
		return oldestOf(&t.byAge), true
	case full:
		return t.busiest[0].oldest(), true
	}
	return nil, true
}

// oldestOf returns the oldest connection of a list by age, which is not empty.
func oldestOf(byAge *list.List) *halfOpen { return byAge.Front().Value.(*halfOpen) }

func (s *halfOpenSource) oldest() *halfOpen { return oldestOf(&s.byAge) }

// add adds a connection to the table.
func (t *halfOpenTable) add(h *halfOpen, source netip.Addr, now time.Time) {
	s, known := t.sources[source]
	if !known {
		s = &halfOpenSource{key: source}
		t.sources[source] = s
	}
	h.source, h.since = s, now
	h.inSource, h.inTable = s.byAge.PushBack(h), t.byAge.PushBack(h)
	s.count++
	t.total++
	if known {
		heap.Fix(&t.busiest, s.index)
	} else {
		heap.Push(&t.busiest, s)
	}
}

// remove removes a connection, and reports whether it was in the table.
func (t *halfOpenTable) remove(h *halfOpen) (was bool) {
	s := h.source
	if s == nil {
		return false
	}
	if s.count == 1 {
		heap.Remove(&t.busiest, s.index) // while it can still be compared
		delete(t.sources, s.key)
	}
	s.byAge.Remove(h.inSource)
	t.byAge.Remove(h.inTable)
	h.source, h.inSource, h.inTable = nil, nil, nil
	s.count--
	t.total--
	if s.count > 0 {
		heap.Fix(&t.busiest, s.index)
	}
	return true
}

// hashSource returns a hash of the source of a datagram.
func hashSource(seed maphash.Seed, from netip.Addr) uint64 {
	b := sourceOf(from).As16()
	return maphash.Bytes(seed, b[:])
}

// sourceOf returns the source that an address belongs to: the IPv4 address itself, or
// the /64 network of an IPv6 address, because a host may use all addresses of its
// network (RFC 4291, 2.5.4).
func sourceOf(addr netip.Addr) netip.Addr { return networkOf(addr, 64) }

// siteOf returns the source that an address belongs to where sources are remembered for
// long: the IPv4 address itself, or the /48 prefix of an IPv6 address. A site may use all
// 65,536 networks of such a prefix (RFC 6177, 2), which are too many to remember.
func siteOf(addr netip.Addr) netip.Addr { return networkOf(addr, 48) }

// networkOf returns an IPv4 address itself, or the first bits of an IPv6 address followed
// by zeros.
func networkOf(addr netip.Addr, bits int) netip.Addr {
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr
	}
	// Prefix fails for an invalid address only.
	p, _ := addr.Prefix(bits)
	return p.Addr()
}

// A halfOpenHeap has the source with the most connections first. Among sources with
// equally many, the first is the source with the oldest connection.
type halfOpenHeap []*halfOpenSource

// Len, Less, Swap, Push and Pop implement heap.Interface.

func (h halfOpenHeap) Len() int { return len(h) }

func (h halfOpenHeap) Less(i, j int) bool {
	if h[i].count != h[j].count {
		return h[i].count > h[j].count
	}
	return h[i].oldest().since.Before(h[j].oldest().since)
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
