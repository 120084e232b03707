package slab

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	cacheLine = 64
	// A new chunk has as many slots as all earlier chunks together, but at least minChunk
	// and at most maxChunk slots. Arbitrary.
	minChunk = 64
	maxChunk = 4096
	// chunkBytes is the largest size of a chunk with more than one slot. Unmapping 16 MiB
	// stops the loop for about a millisecond.
	chunkBytes = 16 << 20
)

// A slab is registered memory, divided into slots of one size. It grows by chunks. trim
// returns unused memory to the system.
type slab[B any] struct {
	pool   *Pool[B]
	access verbs.Access // access rights of the memory
	size   int          // size in bytes of the memory of a slot
	single bool         // true if each chunk has one slot, and unused memory is not kept

	chunks []*chunk[B]
	// The slots by their index. An element is nil if the memory of the slot was returned to
	// the system.
	all   []*Slot[B]
	count int // number of slots that have memory

	// current is the chunk from which slots are taken. If current is nil, pickChunk must
	// choose a chunk.
	current    *chunk[B]
	searchFrom int // index of the first chunk that may have a free slot

	trimNext int // index of the chunk that trim checks next
}

// A Slot is a part of a slab: the buffer that describes a piece of its memory.
type Slot[B any] struct {
	Buffer B
	chunk  *chunk[B]
	Index  uint32 // number of the slot in its slab
	// next is the position in the chunk of the next free slot, or noSlot. It is inUse if
	// this slot is not free.
	next uint32
}

const (
	noSlot = 1<<32 - 1
	inUse  = noSlot - 1
)

// A chunk is one memory region, divided into slots with consecutive indexes. A chunk
// without memory keeps its indexes, and gets new memory when the slab grows again.
type chunk[B any] struct {
	slab  *slab[B]
	pos   int      // index of the chunk in slab.chunks
	base  int      // index of the first slot
	count int      // number of slots of the chunk
	mr    verbs.MR // memory of the chunk; nil if it was returned to the system
	slots []Slot[B]

	free uint32 // position of the first free slot, or noSlot
	used int    // number of the chunk's slots that are not free

	usedSinceTrim bool // true if pickChunk has chosen the chunk since the last round of trim
	// freeAtDiscard is the head of the list free at the last call of discard, or noSlot. If
	// the head has changed, a slot was released, and trim discards again.
	freeAtDiscard uint32
	// number of slots that the steps of discard have checked so far
	scanned int
}

// Region returns the memory region to which the memory of the slot belongs.
func (t *Slot[B]) Region() verbs.MR { return t.chunk.mr }

// get returns a free slot. If there is none, the slab grows.
func (s *slab[B]) get() (*Slot[B], error) {
	c := s.current
	if c == nil || c.free == noSlot {
		var err error
		if c, err = s.pickChunk(); err != nil {
			return nil, err
		}
	}
	t := &c.slots[c.free]
	c.free, t.next = t.next, inUse
	c.used++
	return t, nil
}

// Put returns the slot to its slab.
func (t *Slot[B]) Put() {
	c := t.chunk
	t.next, c.free = c.free, t.Index-uint32(c.base)
	c.used--
	if s := c.slab; c.pos < s.searchFrom {
		s.searchFrom = c.pos
	}
}

// pickChunk chooses the first chunk with a free slot. If there is none, it makes a new
// chunk. Because the first chunks are preferred, the last ones become unused, and trim
// can release them.
func (s *slab[B]) pickChunk() (*chunk[B], error) {
	for s.searchFrom < len(s.chunks) && s.chunks[s.searchFrom].free == noSlot {
		s.searchFrom++
	}
	if s.searchFrom == len(s.chunks) {
		c, err := s.grow()
		if err != nil {
			return nil, err
		}
		s.searchFrom = c.pos
	}
	c := s.chunks[s.searchFrom]
	c.usedSinceTrim = true
	s.current = c
	return c, nil
}

// stride returns the distance in bytes between two slots: their size, rounded up to a
// multiple of the cache line.
func (s *slab[B]) stride() int { return (s.size + cacheLine - 1) &^ (cacheLine - 1) }

// grow allocates the memory of a chunk and returns the chunk. It uses the first chunk
// without memory. If there is none, it adds a chunk at the end.
func (s *slab[B]) grow() (*chunk[B], error) {
	freed := slices.IndexFunc(s.chunks, func(c *chunk[B]) bool { return c.mr == nil })
	if freed >= 0 {
		return s.chunks[freed], s.allocChunk(s.chunks[freed])
	}
	count := min(max(minChunk, len(s.all)), maxChunk, max(1, chunkBytes/s.stride()))
	if s.single {
		count = 1
	}
	if limit := s.pool.Limit; len(s.all)+count > limit {
		return nil, &verbs.ParamError{Field: "buffers", Value: int64(len(s.all) + count), Limit: int64(limit)}
	}
	c := &chunk[B]{slab: s, pos: len(s.chunks), base: len(s.all), count: count}
	if err := s.allocChunk(c); err != nil {
		return nil, err
	}
	return c, nil
}

// allocChunk allocates the memory of a chunk and adds its slots to the slab.
func (s *slab[B]) allocChunk(c *chunk[B]) error {
	stride := s.stride()
	mr, err := s.pool.PD.Alloc(&verbs.AllocAttr{Size: c.count * stride, Access: s.access, HugePages: s.pool.Huge})
	if err != nil {
		return err
	}
	if c.pos == len(s.chunks) {
		s.chunks = append(s.chunks, c)
		s.all = append(s.all, make([]*Slot[B], c.count)...)
	}
	c.mr, c.slots, c.used = mr, make([]Slot[B], c.count), 0
	c.free, c.freeAtDiscard = noSlot, noSlot
	for i := c.count - 1; i >= 0; i-- {
		t, at := &c.slots[i], i*stride
		t.chunk, t.Index = c, uint32(c.base+i)
		t.next, c.free = c.free, uint32(i)
		s.all[t.Index] = t
		s.pool.Attach(t, mr.Bytes()[at:at+s.size:at+s.size], verbs.SGEOf(mr, at, s.size))
	}
	if c.pos < s.searchFrom {
		s.searchFrom = c.pos
	}
	s.count += c.count
	if s.pool.OnGrow != nil {
		s.pool.OnGrow()
	}
	return nil
}

// at returns the slot with the given index. It returns nil if there is no such slot, or
// if its memory was returned to the system.
func (s *slab[B]) at(index uint32) *Slot[B] {
	if int64(index) >= int64(len(s.all)) {
		return nil
	}
	return s.all[index]
}

// bytes returns the total size of all slots in bytes.
func (s *slab[B]) bytes() uint64 { return uint64(s.count) * uint64(s.size) }

// close releases all memory. No slot may be in use by the device.
func (s *slab[B]) close() (err error) {
	for _, c := range s.chunks {
		if c.mr != nil {
			if closeErr := c.mr.Close(); err == nil {
				err = closeErr
			}
		}
	}
	s.chunks, s.all, s.count, s.current, s.searchFrom, s.trimNext = nil, nil, 0, nil, 0, 0
	return err
}
