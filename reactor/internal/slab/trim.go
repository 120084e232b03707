package slab

import "slices"

// trim returns memory of chunks that pickChunk has not chosen since the last round:
//
//   - It closes the memory region of a chunk without slots in use.
//   - It discards the pages of free slots in other chunks, if the provider can do
//     that. The slots can still be used.

// maxDiscards is how many system calls one step of trim() may make to discard memory.
// Each call takes up to about 10 µs. Arbitrary.
const maxDiscards = 64

// trim closes or discards memory of one chunk. A round of calls visits every chunk. The
// result more is true until the round is complete.
func (s *slab[B]) trim() (more bool, err error) {
	s.current = nil // If current is nil, slab.get() calls pickChunk, which sets usedSinceTrim.
	for s.trimNext < len(s.chunks) {
		c := s.chunks[s.trimNext]
		switch {
		case c.mr == nil:
		case c.usedSinceTrim:
			c.usedSinceTrim, c.freeAtDiscard, c.scanned = false, noSlot, 0
		case c.used == 0 && (c.pos > 0 || s.single):
			s.trimNext++
			return true, s.freeChunk(c)
		case c.freeAtDiscard != c.free || c.scanned > 0:
			if c.discard() {
				s.trimNext++
			}
			return true, nil
		}
		s.trimNext++
	}
	s.trimNext = 0
	s.dropFreedChunks()
	return false, nil
}

// freeChunk closes the memory region of an unused chunk, after pool.Detach of its buffers.
func (s *slab[B]) freeChunk(c *chunk[B]) error {
	if err := c.mr.Close(); err != nil {
		c.usedSinceTrim = true // A later round of trim() will try again.
		return err
	}
	for i := range c.slots {
		t := &c.slots[i]
		s.pool.Detach(&t.Buffer)
		s.all[t.Index] = nil
	}
	s.count -= c.count
	c.mr, c.slots, c.free, c.used, c.freeAtDiscard, c.scanned = nil, nil, noSlot, 0, noSlot, 0
	return nil
}

// dropFreedChunks removes the chunks without memory at the end of slab.chunks, and their
// entries in slab.all.
func (s *slab[B]) dropFreedChunks() {
	last := len(s.chunks)
	for last > 0 && s.chunks[last-1].mr == nil {
		last--
	}
	if last == len(s.chunks) {
		return
	}
	s.all = slices.Clone(s.all[:s.chunks[last].base])
	s.chunks = slices.Clone(s.chunks[:last])
	s.searchFrom = min(s.searchFrom, last)
}

// discard takes one step of discarding the pages of free slots. A step makes at most
// maxDiscards system calls. The result is true when the chunk is finished.
func (c *chunk[B]) discard() (done bool) {
	if c.scanned == 0 {
		// When a slot is released later, the head of the free list changes. Then a later
		// round discards again.
		c.freeAtDiscard = c.free
	}
	stride, calls := c.slab.stride(), 0
	for c.scanned < c.count && calls < maxDiscards {
		begin := c.scanned
		for c.scanned < c.count && c.slots[c.scanned].next != inUse {
			c.scanned++
		}
		if c.scanned > begin {
			calls++
			if c.mr.Discard(begin*stride, (c.scanned-begin)*stride) != nil {
				// The pages can not be discarded: they are pinned or huge, or the system has
				// no call that discards them.
				c.scanned = c.count
			}
		}
		for c.scanned < c.count && c.slots[c.scanned].next == inUse {
			c.scanned++
		}
	}
	if c.scanned < c.count {
		return false
	}
	c.scanned = 0
	return true
}
