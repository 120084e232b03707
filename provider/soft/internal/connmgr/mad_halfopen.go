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

// A halfOpen is a connection or lookup whose peer address may be forged. The
// multiplexer's lock guards it.
type halfOpen struct {
	c      *madConn
	since  time.Time       // time of the request
	source *halfOpenSource // source of the request; nil if the halfOpen is in no table
	// Elements of this halfOpen in halfOpenSource.byAge and halfOpenTable.byAge.
	inSource, inTable *list.Element
}

// A halfOpenSource has the half-open connections of one source; see access.SourceOf.
type halfOpenSource struct {
	key   netip.Addr // address or network of the source
	count int        // length of byAge
	// half-open connections of the source as *halfOpen, the oldest first; never empty
	byAge list.List
	index int // index of the source in halfOpenTable.busiest
}

// A halfOpenTable limits the half-open connections of one listener, in total and for
// each source, because source addresses may be forged.
type halfOpenTable struct {
	// Largest numbers of connections: in the table, and of one source.
	max, maxPerSource int
	total             int                            // number of connections in the table
	sources           map[netip.Addr]*halfOpenSource // sources that have connections, by halfOpenSource.key
	busiest           halfOpenHeap                   // the same sources, the one with the most connections first
	// evicting is the number of evicted connections that have not ended yet.
	evicting int
	// all half-open connections of the table as *halfOpen, the oldest first
	byAge list.List
}

// A burst is at most burstSize half-open connections of one source, all younger than
// burstTime; see room(). Both numbers are arbitrary.
const (
	burstSize = 16
	burstTime = 250 * time.Millisecond
)

// graceTime is the time during which a new connection is not evicted by requests of its
// own source. Arbitrary.
const graceTime = time.Second

func newHalfOpenTable(most, perSource int) halfOpenTable {
	return halfOpenTable{
		max: most, maxPerSource: perSource,
		sources: make(map[netip.Addr]*halfOpenSource),
	}
}

// room reports whether a request can be accepted. It also returns the half-open
// connection to evict, or nil. The first rule that applies decides:
//
//   - If too many evicted connections still use memory, the request is dropped.
//   - If sourceFull is true, the source has too many connections. Its oldest half-open
//     connection is evicted, and the request is dropped. When the request is
//     retransmitted, there is room for it.
//   - If the source has maxPerSource half-open connections, its oldest one is evicted.
//     The same is done if the table is full, and no source would have more connections
//     than this one.
//   - If the table is full, the oldest connection of the source with the most
//     connections is evicted. If the connections of that source are a burst, the oldest
//     connection in the table is evicted instead.
//
// The second and the third rule evict only a connection that is older than graceTime. If
// the connection is younger, it stays, and the request is dropped.
func (t *halfOpenTable) room(source netip.Addr, sourceFull bool, now time.Time) (victim *halfOpen, ok bool) {
	own := t.sources[source]
	full := t.total >= t.max
	switch {
	case t.evicting >= t.max:
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

// oldestOf returns the first connection of a list that is ordered by age and not empty.
func oldestOf(byAge *list.List) *halfOpen { return byAge.Front().Value.(*halfOpen) }

func (s *halfOpenSource) oldest() *halfOpen { return oldestOf(&s.byAge) }

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

// remove removes a connection. It returns false if the connection is not in the table.
func (t *halfOpenTable) remove(h *halfOpen) (was bool) {
	s := h.source
	if s == nil {
		return false
	}
	if s.count == 1 {
		// heap.Remove reads the oldest connection of s, so h must still be in s.
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

// A halfOpenHeap is ordered by the number of connections, most first, and then by age.
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
