package reactor

import (
	"iter"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A poolConfig says what the memory of a pool is, and who describes it.
type poolConfig[B any] struct {
	pd          verbs.PD
	size        int          // size of the small slots in bytes
	access      verbs.Access // access rights of the small slots
	largeAccess verbs.Access // access rights of the other slots
	huge        bool         // use huge pages
	limit       int          // largest number of slots of one size
	onGrow      func()       // called when the pool has more memory, or nil
	// attach is called for a new slot, and gives its buffer the memory. detach takes the
	// memory from the buffer, because it was returned to the system.
	attach func(t *slot[B], memory []byte, sge verbs.SGE)
	detach func(*B)
}

// A pool has the registered memory of one owner on one device. It has a slab of small
// slots, and for larger ones a slab for each power of two. A large slot has a memory region
// of its own, so that its memory can be returned alone, and its remote key is valid for
// this slot only.
type pool[B any] struct {
	poolConfig[B]
	small    slab[B]
	large    []*slab[B] // index: binary logarithm of the size; an element may be nil
	trimNext int        // slab at which trim continues: 0 means small, n large[n-1]
}

// init prepares the pool, whose zero value has no memory.
func (p *pool[B]) init(c poolConfig[B]) {
	p.poolConfig = c
	p.small = slab[B]{pool: p, access: c.access, size: c.size}
}

// get returns a free small slot.
func (p *pool[B]) get() (*slot[B], error) { return p.small.get() }

// getSize returns a free slot with at least n bytes.
func (p *pool[B]) getSize(n int) (*slot[B], error) {
	if n <= p.size {
		return p.small.get()
	}
	class := bits.Len(uint(n - 1))
	for len(p.large) <= class {
		p.large = append(p.large, nil)
	}
	if p.large[class] == nil {
		p.large[class] = &slab[B]{pool: p, access: p.largeAccess, size: 1 << class, single: true}
	}
	return p.large[class].get()
}

// sizeFor returns the size in bytes of a slot with at least n bytes.
func (p *pool[B]) sizeFor(n int) int {
	if n <= p.size {
		return p.size
	}
	return 1 << bits.Len(uint(n-1))
}

// at returns the small slot with the given index. It returns nil if there is no such slot,
// or if its memory was returned to the system.
func (p *pool[B]) at(index uint32) *slot[B] { return p.small.at(index) }

// all iterates over the buffers of the small slots.
func (p *pool[B]) all() iter.Seq[*B] {
	return func(yield func(*B) bool) {
		for _, t := range p.small.all {
			if t != nil && !yield(&t.buffer) {
				return
			}
		}
	}
}

// owns reports whether the slot belongs to the pool.
func (p *pool[B]) owns(t *slot[B]) bool { return t.chunk.slab.pool == p }

// drop releases the memory of a large slot that is in use. It does nothing after close.
func (p *pool[B]) drop(t *slot[B]) error {
	if s := t.chunk.slab; s.at(t.index) == t {
		return s.freeChunk(t.chunk)
	}
	return nil
}

// trim closes or discards unused memory, one step in each call. The result more is true
// until the round over all slabs is complete.
func (p *pool[B]) trim() (more bool, err error) {
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

// bytes returns the total size of all slots in bytes.
func (p *pool[B]) bytes() uint64 {
	n := p.small.bytes()
	for _, s := range p.large {
		if s != nil {
			n += s.bytes()
		}
	}
	return n
}

// close releases all memory. No slot may be in use by the device.
func (p *pool[B]) close() (err error) {
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
