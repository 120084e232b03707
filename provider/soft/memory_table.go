//go:build linux

package soft

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// maxMR is how many regions a device has at most.
	maxMR = 1<<20 - 1
	// leastSlots is the size of the smallest table, arbitrary: 1 KiB on a 64-bit
	// processor.
	leastSlots = 128
)

// An mrTable finds a region by its key, a random number of 32 bits. A reader takes
// no lock. The zero value is an empty table.
//
// It is a hash table with open addressing. Because keys are random, the low bits of
// a key are its hash. At most half of the slots are in use, so that a search ends
// after few slots.
type mrTable struct {
	slots atomic.Pointer[mrSlots]

	mu      sync.Mutex // for all but find
	regions int        // in the table
	used    int        // slots that are not empty: regions, and removed
	removed mr         // takes the place of a region that was removed; its key is 0
}

// mrSlots has a power of two of slots. A slot that was used once is not emptied
// again: a search for a key that came behind it has to go on.
type mrSlots []atomic.Pointer[mr]

// find returns the region with a key, or nil.
func (t *mrTable) find(key uint32) *mr {
	slots := t.slots.Load()
	if slots == nil {
		return nil
	}
	mask := uint32(len(*slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		switch m := (*slots)[i].Load(); {
		case m == nil:
			return nil
		case m.key == key && key != 0:
			return m
		}
	}
}

// insert gives a region its key, which no other region has.
func (t *mrTable) insert(m *mr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.regions == maxMR {
		return &verbs.ParamError{Field: "memory regions", Value: maxMR + 1, Limit: maxMR}
	}
	t.makeRoom()
	for m.key = randomUint32(); m.key == 0 || t.find(m.key) != nil; {
		m.key = randomUint32()
	}
	t.regions++
	if t.slots.Load().put(m, &t.removed) {
		t.used++
	}
	return nil
}

// makeRoom replaces the slots when half of them are used. Readers of the old ones
// find there what was in the table then.
func (t *mrTable) makeRoom() {
	old := t.slots.Load()
	if old != nil && 2*(t.used+1) <= len(*old) {
		return
	}
	slots := make(mrSlots, max(leastSlots, ceilPow2(4*(t.regions+1))))
	if old != nil {
		for i := range *old {
			if m := (*old)[i].Load(); m != nil && m != &t.removed {
				slots.put(m, &t.removed)
			}
		}
	}
	t.used = t.regions
	t.slots.Store(&slots)
}

// put stores a region, whose key is not there, in the first place that is free. It
// reports whether that was never used.
func (s mrSlots) put(m, removed *mr) (fresh bool) {
	mask := uint32(len(s) - 1)
	for i := m.key & mask; ; i = (i + 1) & mask {
		switch old := s[i].Load(); old {
		case nil, removed:
			s[i].Store(m)
			return old == nil
		}
	}
}

func (t *mrTable) remove(m *mr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := *t.slots.Load()
	mask := uint32(len(slots) - 1)
	for i := m.key & mask; ; i = (i + 1) & mask {
		if slots[i].Load() == m {
			slots[i].Store(&t.removed)
			t.regions--
			return
		}
	}
}
