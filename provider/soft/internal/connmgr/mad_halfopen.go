//go:build linux

package connmgr

import (
	"container/heap"
	"container/list"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
)

// A halfOpen is a connection or lookup whose peer address is not validated, so the
// address may be forged. The multiplexer's lock guards it.
type halfOpen struct {
	c      *madConn
	since  time.Time       // time of the request
	source *halfOpenSource // source of the requests of this peer; nil if the halfOpen is in no table
	// inSource is the element of this halfOpen in halfOpenSource.byAge. inTable is its
	// element in halfOpenTable.byAge.
	inSource, inTable *list.Element
}

// A halfOpenSource has the half-open connections of one source; see access.SourceOf.
type halfOpenSource struct {
	key   netip.Addr // address or network of the source
	count int        // length of byAge
	// half-open connections of the source (*halfOpen), the oldest first; never empty
	byAge list.List
	index int // index of the source in halfOpenTable.busiest
}

// A halfOpenTable has the half-open connections of one listener. Anybody can send
// requests with any number of forged source addresses, and each request takes memory. So
// the number of half-open connections is limited, in total and for each source.
type halfOpenTable struct {
	// The field max is the largest number of connections in the table. maxPerSource is
	// the largest number of connections of one source.
	max, maxPerSource int
	total             int                            // number of connections in the table
	sources           map[netip.Addr]*halfOpenSource // sources of the connections; each key is halfOpenSource.key
	busiest           halfOpenHeap                   // the same sources, the one with the most connections first
	// evicting is the number of connections that were removed from the table for
	// eviction and have not ended yet.
	evicting int
	// all half-open connections of the table (*halfOpen), the oldest first
	byAge list.List
}

// A source that requests several connections at once has many half-open connections
// until it has confirmed them, which takes a round trip. For that time it may be the
// source with the most half-open connections, whose connections are evicted first. A
// request of another source does not evict a connection if three conditions hold: the
// connection is younger than burstTime, its source has at most burstSize half-open
// connections, and the table has an older connection. Both numbers are arbitrary.
const (
	burstSize = 16
	burstTime = 250 * time.Millisecond
)

// graceTime is the age up to which a half-open connection can not be evicted by a
// request of the same source. When a peer requests many connections at once, it keeps
// its first connections, and its later requests are dropped until graceTime has passed.
// The number is arbitrary. It is longer than the time after which a lost REP is first
// retransmitted (256 ms), and much shorter than the time for which a peer retransmits
// its request (74 s).
const graceTime = time.Second

func newHalfOpenTable(most, perSource int) halfOpenTable {
	return halfOpenTable{
		max: most, maxPerSource: perSource,
		sources: make(map[netip.Addr]*halfOpenSource),
	}
}

// room reports whether a request from a source can be accepted. It also returns the
// half-open connection that has to be evicted, or nil. The parameter sourceFull is true
// if the source must not have more connections than it has; see sourceCounts.full.
//
// When the table is full, room usually evicts the oldest connection of the source with
// the most connections. There are two exceptions:
//
//   - If the connection to be evicted belongs to a burst (see burstSize), room evicts the
//     oldest connection of the table.
//   - If the source of the request has the most connections, or has reached the limit of
//     one source, room evicts the oldest connection of that source. If even the oldest
//     connection of that source is younger than graceTime, the request is dropped.
//
// If sourceFull is true, room evicts the oldest half-open connection of the source, if
// there is one that is older than graceTime. The request is dropped in any case, because
// the evicted connection counts until its channel has ended it. The peer retransmits the
// request, and then there is room.
//
// So a flood from few addresses affects only these addresses, and most of it is dropped.
// In a flood from very many addresses, a connection is evicted only after the flood has
// sent as many requests as the table can hold.
func (t *halfOpenTable) room(source netip.Addr, sourceFull bool, now time.Time) (victim *halfOpen, ok bool) {
	own := t.sources[source]
	full := t.total >= t.max
	switch {
	case t.evicting >= t.max:
		// The channels have not ended the evicted connections yet. Until then these
		// connections use memory, so no request is accepted.
		return nil, false
	case sourceFull && own == nil:
		return nil, false
	case own != nil && (sourceFull || own.count >= t.maxPerSource || full && own.count+1 >= t.busiest[0].count):
		if now.Sub(own.oldest().since) <= graceTime {
			return nil, false
		}
		return own.oldest(), !sourceFull
	case full && t.busiest[0].count <= burstSize && now.Sub(t.busiest[0].oldest().since) < burstTime:
		return oldestOf(&t.byAge), true
	case full:
		return t.busiest[0].oldest(), true
	}
	return nil, true
}

// oldestOf returns the oldest connection of a list that is ordered by age. The list must
// not be empty.
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

// remove removes a connection. It returns false if the connection was not in the table.
func (t *halfOpenTable) remove(h *halfOpen) (was bool) {
	s := h.source
	if s == nil {
		return false
	}
	if s.count == 1 {
		// heap.Remove is called before the last connection is removed from the list of
		// s, because it calls Less, which uses the oldest connection of the list.
		heap.Remove(&t.busiest, s.index)
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

// hashSource returns a keyed hash of the source of a datagram.
func hashSource(seed maphash.Seed, from netip.Addr) uint64 {
	b := access.SourceOf(from).As16()
	return maphash.Bytes(seed, b[:])
}

// A halfOpenHeap has the source with the most connections first. Among sources with the
// same number, the source with the oldest connection is first.
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
