// Package slab divides registered memory into slots. The type parameter B is the type of
// the values with which the user of the package describes the memory of the slots.
package slab

import (
	"iter"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config says what the memory of a pool is, and who describes it.
type Config[B any] struct {
	PD          verbs.PD
	Size        int          // size of the small slots in bytes
	Access      verbs.Access // access rights of the small slots
	LargeAccess verbs.Access // access rights of the other slots
	Huge        bool         // use huge pages
	Limit       int          // largest number of slots of one size
	OnGrow      func()       // called when the pool has more memory, or nil
	// Attach is called for a new slot, and gives its buffer the memory. Detach takes the
	// memory from the buffer, because it was returned to the system.
	Attach func(t *Slot[B], memory []byte, sge verbs.SGE)
	Detach func(*B)
}

// A Pool has the registered memory of one owner on one device. It has a slab of small
// slots, and for larger ones a slab for each power of two. A large slot has a memory region
// of its own, so that its memory can be returned alone, and its remote key is valid for
// this slot only.
type Pool[B any] struct {
	Config[B]
	small    slab[B]
	large    []*slab[B] // index: binary logarithm of the size; an element may be nil
	trimNext int        // slab at which trim continues: 0 means small, n large[n-1]
}

// Init prepares the pool, whose zero value has no memory.
func (p *Pool[B]) Init(c Config[B]) {
	p.Config = c
	p.small = slab[B]{pool: p, access: c.Access, size: c.Size}
}

// Get returns a free small slot.
func (p *Pool[B]) Get() (*Slot[B], error) { return p.small.get() }

// GetSize returns a free slot with at least n bytes.
func (p *Pool[B]) GetSize(n int) (*Slot[B], error) {
	if n <= p.Size {
		return p.small.get()
	}
	class := bits.Len(uint(n - 1))
	for len(p.large) <= class {
		p.large = append(p.large, nil)
	}
	if p.large[class] == nil {
		p.large[class] = &slab[B]{pool: p, access: p.LargeAccess, size: 1 << class, single: true}
	}
	return p.large[class].get()
}

// SizeFor returns the size in bytes of a slot with at least n bytes.
func (p *Pool[B]) SizeFor(n int) int {
	if n <= p.Size {
		return p.Size
	}
	return 1 << bits.Len(uint(n-1))
}

// At returns the small slot with the given index. It returns nil if there is no such slot,
// or if its memory was returned to the system.
func (p *Pool[B]) At(index uint32) *Slot[B] { return p.small.at(index) }

// All iterates over the buffers of the small slots.
func (p *Pool[B]) All() iter.Seq[*B] {
	return func(yield func(*B) bool) {
		for _, t := range p.small.all {
			if t != nil && !yield(&t.Buffer) {
				return
			}
		}
	}
}

// Owns reports whether the slot belongs to the pool.
func (p *Pool[B]) Owns(t *Slot[B]) bool { return t.chunk.slab.pool == p }

// Drop releases the memory of a large slot that is in use. It does nothing after Close.
func (p *Pool[B]) Drop(t *Slot[B]) error {
	if s := t.chunk.slab; s.at(t.Index) == t {
		return s.freeChunk(t.chunk)
	}
	return nil
}

// Trim closes or discards unused memory, one step in each call. The result more is true
// until the round over all slabs is complete.
func (p *Pool[B]) Trim() (more bool, err error) {
	for p.trimNext <= len(p.large) {
		s := &p.small
		if p.trimNext > 0 {
			s = p.large[p.trimNext-1]
		}
		if s != nil {
			if more, err := s.trim(); more {
				return true, err
			}
		}
		p.trimNext++
	}
	p.trimNext = 0
	return false, nil
}

// Bytes returns the total size of all slots in bytes.
func (p *Pool[B]) Bytes() uint64 { return p.small.bytes() + p.LargeBytes() }

// LargeBytes returns the total size of the large slots in bytes.
func (p *Pool[B]) LargeBytes() (n uint64) {
	for _, s := range p.large {
		if s != nil {
			n += s.bytes()
		}
	}
	return n
}

// Close releases all memory. No slot may be in use by the device.
func (p *Pool[B]) Close() (err error) {
	err = p.small.close()
	for _, s := range p.large {
		if s != nil {
			if closeErr := s.close(); err == nil {
				err = closeErr
			}
		}
	}
	p.large = nil
	return err
}
