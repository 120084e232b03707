package reactor

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// trim returns memory of chunks that pickChunk has not chosen since the last round:
//
//   - It closes the memory region of a chunk without buffers in use.
//   - It discards the pages of free buffers in other chunks, if the provider can do
//     that. The buffers can still be used.

// maxDiscards is how many system calls one step of trim() may make to discard memory.
// Each call takes up to about 10 µs. Arbitrary.
const maxDiscards = 64

// trim closes or discards memory of one chunk. A round of calls visits every chunk. The
// result more is true until the round is complete.
func (s *slab) trim() (more bool, err error) {
	s.current = nil // If current is nil, slab.get() calls pickChunk, which sets usedSinceTrim.
	for s.trimNext < len(s.chunks) {
		c := s.chunks[s.trimNext]
		switch {
		case c.mr == nil:
		case c.usedSinceTrim:
			c.usedSinceTrim, c.freeAtDiscard, c.scanned = false, nil, 0
		case c.used == 0 && (c.pos > 0 || s.single):
			s.trimNext++
			return true, s.freeChunk(c)
		case c.freeAtDiscard != c.free || c.scanned > 0:
			memory, ok := c.mr.(verbs.Discarder)
			if !ok {
				break
			}
			if c.discard(memory) {
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

// freeChunk closes the memory region of an unused chunk. Buffer.memory becomes nil, so a
// program that uses a Buffer after Release can not access memory that was returned to the
// system.
func (s *slab) freeChunk(c *chunk) error {
	if err := c.mr.Close(); err != nil {
		c.usedSinceTrim = true // A later round of trim() will try again.
		return err
	}
	for i := range c.buffers {
		b := &c.buffers[i]
		b.memory, b.length, b.next = nil, 0, nil
		s.all[b.index] = nil
	}
	s.count -= c.count
	c.mr, c.buffers, c.free, c.used, c.freeAtDiscard, c.scanned = nil, nil, nil, 0, nil, 0
	return nil
}

// dropFreedChunks removes the chunks without memory at the end of slab.chunks, and their
// entries in slab.all.
func (s *slab) dropFreedChunks() {
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

// discard takes one step of discarding the pages of free buffers. A step makes at most
// maxDiscards system calls. The result is true when the chunk is finished.
func (c *chunk) discard(memory verbs.Discarder) (done bool) {
	if c.scanned == 0 {
		// When a buffer is released later, the head of the free list changes. Then a later
		// round discards again.
		c.freeAtDiscard = c.free
	}
	stride, calls := c.slab.stride(), 0
	for c.scanned < c.count && calls < maxDiscards {
		begin := c.scanned
		for c.scanned < c.count && c.buffers[c.scanned].state == bufferFree {
			c.scanned++
		}
		if c.scanned > begin {
			calls++
			if memory.Discard(begin*stride, (c.scanned-begin)*stride) != nil {
				// The pages can not be discarded: they are huge pages, or the system has
				// no call that discards them.
				c.scanned = c.count
			}
		}
		for c.scanned < c.count && c.buffers[c.scanned].state != bufferFree {
			c.scanned++
		}
	}
	if c.scanned < c.count {
		return false
	}
	c.scanned = 0
	return true
}
