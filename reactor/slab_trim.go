package reactor

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The slab gives memory back in two ways. A chunk none of whose buffers is in use is
// closed as a whole. Where the provider can discard memory that stays registered, the
// free buffers of other chunks keep their place and lose their pages. Either happens to a
// chunk that get has not looked at between two rounds of trim. get and put take no part
// in that: between two rounds get looks at a chunk at most when its chunk is empty.

// maxDiscards is how many times one step of trim calls the system to discard memory, each
// for some ten microseconds at most. The number is arbitrary.
const maxDiscards = 64

// trim takes a step of a round over all chunks: it closes one, or discards memory of one.
// It reports whether the round goes on.
func (s *slab) trim() (more bool, err error) {
	s.current = nil // so that a get shows
	for s.cursor < len(s.chunks) {
		c := s.chunks[s.cursor]
		switch {
		case c.mr == nil:
		case c.touched:
			c.touched, c.cold, c.scanned = false, nil, 0
		case c.used == 0 && c.pos > 0:
			s.cursor++
			return true, s.vacate(c)
		case c.cold != c.free || c.scanned > 0:
			memory, ok := c.mr.(verbs.Discarder)
			if !ok {
				break
			}
			if c.discard(memory) {
				s.cursor++
			}
			return true, nil
		}
		s.cursor++
	}
	s.cursor = 0
	s.shorten()
	return false, nil
}

// vacate closes the memory of a chunk that is not used. Who still has one of its buffers
// after it was released finds it empty.
func (s *slab) vacate(c *chunk) error {
	if err := c.mr.Close(); err != nil {
		c.touched = true // to be tried again, but not at once
		return err
	}
	for i := range c.buffers {
		b := &c.buffers[i]
		b.memory, b.length, b.next = nil, 0, nil
		s.all[b.index] = nil
	}
	s.count -= c.count
	c.mr, c.buffers, c.free, c.used, c.cold, c.scanned = nil, nil, nil, 0, nil, 0
	return nil
}

// shorten drops the chunks at the end that were given back, and the tables' memory with
// them.
func (s *slab) shorten() {
	last := len(s.chunks)
	for last > 0 && s.chunks[last-1].mr == nil {
		last--
	}
	if last == len(s.chunks) {
		return
	}
	s.all = slices.Clone(s.all[:s.chunks[last].base])
	s.chunks = slices.Clone(s.chunks[:last])
	s.lowest = min(s.lowest, last)
}

// discard takes a step of giving back the pages of the free buffers, and reports whether
// it was the last.
func (c *chunk) discard(memory verbs.Discarder) (done bool) {
	if c.scanned == 0 {
		c.cold = c.free // what is released later comes before it
	}
	stride, calls := c.slab.stride(), 0
	for c.scanned < c.count && calls < maxDiscards {
		begin := c.scanned
		for c.scanned < c.count && c.buffers[c.scanned].use == free {
			c.scanned++
		}
		if c.scanned > begin {
			calls++
			if memory.Discard(begin*stride, (c.scanned-begin)*stride) != nil {
				c.scanned = c.count // it can not be had: huge pages, or another system
			}
		}
		for c.scanned < c.count && c.buffers[c.scanned].use != free {
			c.scanned++
		}
	}
	if c.scanned < c.count {
		return false
	}
	c.scanned = 0
	return true
}
