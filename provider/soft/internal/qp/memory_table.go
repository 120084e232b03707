//go:build linux

package qp

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// maxMR is how many regions a device can have.
	maxMR = 1<<20 - 1
	// minTableSlots is the number of slots of the smallest table, which takes 1 KiB.
	// Arbitrary.
	minTableSlots = 128
)

// An mrTable is a hash table with open addressing, at most half full. It finds a region
// by key without a lock. The low bits of a key are its hash, because keys are random.
// The zero value is empty.
type mrTable struct {
	slots  atomic.Pointer[mrSlots]
	random random.Source // source of the keys

	// guards the fields below, and changes of slots; find() does not hold it
	mu      sync.Mutex
	regions int // number of regions in the table
	// number of slots that are not nil
	used int
	// upper 24 bits of the keys of all memory windows; no region has a key with these
	// bits
	windowKeys map[uint32]struct{}
	// Slots of removed regions point to removedMark. Its key is 0, which no region has.
	removedMark mr
}

// mrSlots are the slots of a table. Their number is a power of two. A search ends at a
// nil slot. So the slot of a removed region does not become nil, but points to
// removedMark.
type mrSlots []atomic.Pointer[mr]

// find returns the region with the key, or nil.
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

// insert adds a region, and gives it an unused key.
func (t *mrTable) insert(m *mr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.regions == maxMR {
		return &verbs.ParamError{Field: "memory regions", Value: maxMR + 1, Limit: maxMR}
	}
	t.makeRoom()
	for m.key = t.random.Uint32(); m.key == 0 || t.find(m.key) != nil || t.isWindowKey(m.key); {
		m.key = t.random.Uint32()
	}
	t.put(m)
	return nil
}

// put stores a region that has a key. The caller holds mu and has called makeRoom.
func (t *mrTable) put(m *mr) {
	t.regions++
	if t.slots.Load().put(m, &t.removedMark) {
		t.used++
	}
}

func (t *mrTable) isWindowKey(key uint32) bool {
	_, found := t.windowKeys[key>>8]
	return found
}

// makeRoom makes a new table of slots if half of the slots are used. Searches in the old
// table may continue.
func (t *mrTable) makeRoom() {
	old := t.slots.Load()
	if old != nil && 2*(t.used+1) <= len(*old) {
		return
	}
	slots := make(mrSlots, max(minTableSlots, ceilPow2(4*(t.regions+1))))
	if old != nil {
		for i := range *old {
			if m := (*old)[i].Load(); m != nil && m != &t.removedMark {
				slots.put(m, &t.removedMark)
			}
		}
	}
	t.used = t.regions
	t.slots.Store(&slots)
}

// put stores a region in the first slot that is nil or holds removedMark. It returns
// true if the slot was nil.
func (s mrSlots) put(m, removedMark *mr) (fresh bool) {
	mask := uint32(len(s) - 1)
	for i := m.key & mask; ; i = (i + 1) & mask {
		switch old := s[i].Load(); old {
		case nil, removedMark:
			s[i].Store(m)
			return old == nil
		}
	}
}

// remove removes a region. The caller holds mu.
func (t *mrTable) remove(m *mr) {
	slots := *t.slots.Load()
	mask := uint32(len(slots) - 1)
	for i := m.key & mask; ; i = (i + 1) & mask {
		if slots[i].Load() == m {
			slots[i].Store(&t.removedMark)
			t.regions--
			return
		}
	}
}
