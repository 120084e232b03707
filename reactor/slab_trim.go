package reactor

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The slab returns memory to the system in two ways. If no buffer of a chunk is in use,
// the slab closes the memory region of the chunk. In other chunks it discards the pages
// of the free buffers, if the provider can discard memory that stays registered. Buffers
// whose pages were discarded can still be used. The slab does both only to chunks that
// pickChunk has not chosen since the last round of trim. pickChunk records its choice,
// so get and put need no code for trim and are not slower because of it.

// maxDiscards is how many times one step of trim calls the system to discard memory. One
// call takes at most about 10 µs. The number is arbitrary.
const maxDiscards = 64

// trim takes one step: it closes one chunk, or discards memory of one chunk. A round of
// trim is the sequence of steps that checks all chunks once. trim reports whether the
// round has further steps.
func (s *slab) trim() (more bool, err error) {
	s.current = nil // the next get must call pickChunk, which sets usedSinceTrim
	for s.trimNext < len(s.chunks) {
		c := s.chunks[s.trimNext]
		switch {
		case c.mr == nil:
		case c.usedSinceTrim:
			c.usedSinceTrim, c.freeAtDiscard, c.scanned = false, nil, 0
		case c.used == 0 && c.pos > 0:
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

// freeChunk closes the memory region of an unused chunk. It sets the memory of the
// buffers to nil, so that an application that uses a buffer after Release does not
// access memory that is not mapped any more.
func (s *slab) freeChunk(c *chunk) error {
	if err := c.mr.Close(); err != nil {
		c.usedSinceTrim = true // a later round of trim tries again
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

// discard takes one step of discarding the pages of the chunk's free buffers, with at
// most maxDiscards calls of the system. It reports whether the step was the last one for
// this chunk.
func (c *chunk) discard(memory verbs.Discarder) (done bool) {
	if c.scanned == 0 {
		// A buffer that is released later becomes the new head of the list. trim sees
		// that c.free has changed, and discards again in a later round.
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
