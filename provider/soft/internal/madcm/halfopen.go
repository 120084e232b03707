//go:build linux

package madcm

import (
	"container/heap"
	"container/list"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
)

// A halfOpen is the entry of a connection or SIDR request in a halfOpenTable. The address
// of the peer may be forged. The multiplexer's lock guards the entry.
type halfOpen struct {
	c      *madConn
	proven bool            // true if the source was in provenSources when the request arrived
	since  time.Time       // time at which the request arrived
	source *halfOpenSource // source of the request; nil if the halfOpen is in no table
	// inSource is the element of this halfOpen in halfOpenSource.byAge. inTable is its
	// element in halfOpenTable.byAge.
	inSource, inTable *list.Element
}

// A halfOpenSource has the half-open connections of one source; see access.SourceOf.
type halfOpenSource struct {
	key   netip.Addr // address or network prefix of the source
	count int        // length of byAge
	// half-open connections of the source as *halfOpen, the oldest first; never empty
	byAge list.List
	index int // index of the source in halfOpenTable.busiest
}

// A halfOpenTable limits the half-open connections of one listener, in total and for each
// source. Half-open SIDR requests count as connections.
type halfOpenTable struct {
	// max is the largest number of connections in the table. maxPerSource is the largest
	// number of connections of one source.
	max, maxPerSource int
	total             int                            // number of connections in the table
	sources           map[netip.Addr]*halfOpenSource // sources with connections in the table, by halfOpenSource.key
	// sources with connections in the table; the source with the most connections is first
	busiest busyHeap[*halfOpenSource]
	// evicting is the number of connections in the state addrEvicting.
	evicting int
	// all half-open connections of the table as *halfOpen, the oldest first
	byAge list.List
}

// The connections of a source are a burst if there are at most burstSize of them and all
// are younger than burstTime; see room(). Both numbers are arbitrary.
const (
	burstSize = 16
	burstTime = 250 * time.Millisecond
)

// graceTime is the age up to which a connection is protected against eviction by a
// request of the same source. The number is arbitrary.
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
//   - If too many connections still wait for their eviction, the request is dropped.
//   - If sourceFull is true, the source has too many connections, half-open or not. The
//     oldest half-open connection of the source is evicted. The request is dropped, but
//     will find room when it is retransmitted.
//   - If the source has maxPerSource half-open connections, the oldest of them is
//     evicted. The oldest one is also evicted if the table is full, and no other source
//     has more connections than this source would have with the new connection.
//   - If the table is full, the oldest connection of the source with the most connections
//     is evicted. But if the connections of that source are a burst, the oldest
//     connection in the table is evicted.
//
// The second and the third rule evict a connection only if it is older than graceTime.
// Otherwise the connection stays, and the request is dropped.
func (t *halfOpenTable) room(source netip.Addr, sourceFull bool, now time.Time) (victim *halfOpen, ok bool) {
	return t.roomBeside(source, 0, t.total >= t.max, sourceFull, now)
}

// mayWait reports whether a received request may be queued, and wait until room()
// decides about it. The parameter waiting is the number of requests of its source that
// wait already. In a flood, mayWait drops nearly all requests that room() would drop
// later at a higher cost:
//
//   - The table counts as full when an eighth of it is free. Otherwise each connection of
//     others that completes would let a request of every source of the flood wait.
//   - Requests that wait count as connections of their source. A request that has to
//     evict a connection of its own source does not wait behind another one.
func (t *halfOpenTable) mayWait(source netip.Addr, waiting int, sourceFull bool, now time.Time) bool {
	victim, ok := t.roomBeside(source, waiting, t.total >= t.max-t.max/8, sourceFull, now)
	return victim != nil || ok
}

// roomBeside implements room and mayWait.
func (t *halfOpenTable) roomBeside(source netip.Addr, waiting int, full, sourceFull bool, now time.Time) (victim *halfOpen, ok bool) {
	own, count, half := t.sources[source], waiting, 0
	if own != nil {
		half = own.count
		count += half
	}
	switch {
	case t.evicting >= t.max:
		return nil, false
	case sourceFull && own == nil:
		return nil, false
	case count > 0 && (sourceFull || half >= t.maxPerSource || full && count+1 >= t.busiest[0].count):
		if waiting > 0 || now.Sub(own.oldest().since) <= graceTime {
			return nil, false
		}
		return own.oldest(), !sourceFull
	case full && (t.busiest[0].count == 1 || t.busiest[0].count <= burstSize && now.Sub(t.busiest[0].oldest().since) < burstTime):
		return t.oldest(now), true
	case full:
		return t.busiest[0].oldest(), true
	}
	return nil, true
}

// maxSpared is the largest number of connections that oldest() skips. Arbitrary.
const maxSpared = 64

// oldest returns the oldest connection of the table. It skips some connections of proven
// sources that are at most graceTime old. So a flood from forged addresses does not evict
// them before a confirmation that was lost can be repeated.
func (t *halfOpenTable) oldest(now time.Time) *halfOpen {
	e := t.byAge.Front()
	for range maxSpared {
		h := e.Value.(*halfOpen)
		if !h.proven || now.Sub(h.since) > graceTime {
			return h
		}
		if e = e.Next(); e == nil {
			break
		}
	}
	return oldestOf(&t.byAge)
}

// oldestOf returns the first connection of the list byAge, which must not be empty.
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
		// The connection stays in the list of its source until heap.Remove has returned,
		// because oldest() must not be called for an empty list.
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

// hashSource returns a keyed hash of the source to which an address belongs.
func hashSource(seed maphash.Seed, from netip.Addr) uint64 {
	b := access.SourceOf(from).As16()
	return maphash.Bytes(seed, b[:])
}

// busierThan implements busySource. Of two sources with the same number of connections,
// the source with the older connection is first.
func (s *halfOpenSource) busierThan(other *halfOpenSource) bool {
	if s.count != other.count {
		return s.count > other.count
	}
	return s.oldest().since.Before(other.oldest().since)
}

func (s *halfOpenSource) heapIndex() *int { return &s.index }
