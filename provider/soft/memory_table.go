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
	maxMR    = mrChunk*mrChunks - 1
)

// mrTable finds a region by its key: index in the upper 24 bits, a tag in the
// lower 8, random at first and another each time the index is used again, so that
// an old key does not fit. Reading takes no lock.
type mrTable struct {
	chunks [mrChunks]atomic.Pointer[[mrChunk]atomic.Pointer[mr]]

	mu   sync.Mutex
	free []uint32 // keys given back
	used uint32   // indices used so far; 0 is left out, so that no key is 0
}

func (t *mrTable) find(key uint32) *mr {
	index := key >> 8
	if index > maxMR {
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
	switch n := len(t.free); {
	case n > 0:
		old := t.free[0] // the one unused for longest
		t.free = t.free[1:]
		m.key = old&^0xff | (old+1)&0xff
	case t.used == maxMR:
		return &verbs.ParamError{Field: "memory regions", Value: maxMR + 1, Limit: maxMR}
	default:
		t.used++
		m.key = t.used<<8 | randomUint32()&0xff
	}
	index := m.key >> 8
	slot := &t.chunks[index/mrChunk]
	if slot.Load() == nil {
		slot.Store(new([mrChunk]atomic.Pointer[mr]))
	}
	slot.Load()[index%mrChunk].Store(m)
	return nil
}

func (t *mrTable) remove(m *mr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	index := m.key >> 8
	t.chunks[index/mrChunk].Load()[index%mrChunk].Store(nil)
	t.free = append(t.free, m.key)
}
