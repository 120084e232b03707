//go:build linux

package soft

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	mrChunk  = 256
	mrChunks = 4096
	maxMR    = mrChunk * mrChunks
)

// mrTable finds a region by its key: index in the upper 24 bits, a random tag
// in the lower 8, as rxe does, so that an old key of a reused index does not
// fit. Reading takes no lock.
type mrTable struct {
	chunks [mrChunks]atomic.Pointer[[mrChunk]atomic.Pointer[mr]]

	mu   sync.Mutex
	free []uint32 // indices given back
	next uint32   // first index never used
}

func (t *mrTable) find(key uint32) *mr {
	index := key >> 8
	if index >= maxMR {
		return nil
	}
	chunk := t.chunks[index/mrChunk].Load()
	if chunk == nil {
		return nil
	}
	m := chunk[index%mrChunk].Load()
	if m == nil || m.key != key {
		return nil
	}
	return m
}

func (t *mrTable) insert(m *mr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	index := t.next
	if n := len(t.free); n > 0 {
		index = t.free[n-1]
		t.free = t.free[:n-1]
	} else if index == maxMR {
		return &verbs.ParamError{Field: "memory regions", Value: maxMR + 1, Limit: maxMR}
	} else {
		t.next++
	}
	slot := &t.chunks[index/mrChunk]
	if slot.Load() == nil {
		slot.Store(new([mrChunk]atomic.Pointer[mr]))
	}
	m.key = index<<8 | randomUint32()&0xff
	slot.Load()[index%mrChunk].Store(m)
	return nil
}

func (t *mrTable) remove(m *mr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	index := m.key >> 8
	t.chunks[index/mrChunk].Load()[index%mrChunk].Store(nil)
	t.free = append(t.free, index)
}
