package reactor

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	cacheLine = 64
	// A chunk is one registration; each has as many buffers as all before it,
	// within these bounds.
	minChunk = 64
	maxChunk = 4096
	// chunkBytes is the most memory of a chunk, unless a single buffer is larger. To
	// give back 16 MiB takes the system about a millisecond, for which the loop stands
	// still.
	chunkBytes = 16 << 20
)

// A slab is registered memory cut into buffers of one size, for receiving and
// sending. It grows by chunks, and trim gives back what is not used any more.
type slab struct {
	pd    verbs.PD
	size  int // bytes of a buffer
	huge  bool
	grown func() // called when there is a new chunk; may be nil

	chunks []*chunk
	all    []*Buffer // by index; nil: given back
	count  int       // buffers that there are

	current *chunk // where get takes from; nil: it has to look
	lowest  int    // the chunks before this one have no free buffer

	cursor int // the chunk that trim looks at next
}

// A chunk is memory of one registration. Its buffers have consecutive indexes. When it
// has been given back the indexes are kept, for the chunk that takes its place.
type chunk struct {
	slab    *slab
	pos     int      // in slab.chunks
	base    int      // index of the first buffer
	count   int      // of buffers
	mr      verbs.MR // nil: given back
	buffers []Buffer

	free *Buffer // the list of those not in use
	used int     // how many are not in that list

	touched bool    // get has looked here since trim did
	cold    *Buffer // the head of the list when its memory was last discarded
	scanned int     // how many buffers the discarding under way has looked at
}

// get takes a buffer, growing the slab when there is none.
func (s *slab) get() (*Buffer, error) {
	c := s.current
	if c == nil || c.free == nil {
		var err error
		if c, err = s.pick(); err != nil {
			return nil, err
		}
	}
	b := c.free
	c.free, b.next = b.next, nil
	c.used++
	b.use = leased
	return b, nil
}

// put takes a buffer back.
func (s *slab) put(b *Buffer) {
	c := b.chunk
	b.use, b.owed = free, nil
	b.next, c.free = c.free, b
	c.used--
	if c.pos < s.lowest {
		s.lowest = c.pos
	}
}

// pick finds the chunk that get takes from: the first with a free buffer, so that the
// last ones empty, or a new one.
func (s *slab) pick() (*chunk, error) {
	for s.lowest < len(s.chunks) && s.chunks[s.lowest].free == nil {
		s.lowest++
	}
	if s.lowest == len(s.chunks) {
		c, err := s.grow()
		if err != nil {
			return nil, err
		}
		s.lowest = c.pos
	}
	c := s.chunks[s.lowest]
	c.touched = true
	s.current = c
	return c, nil
}

// stride is the distance between two buffers.
func (s *slab) stride() int { return (s.size + cacheLine - 1) &^ (cacheLine - 1) }

// grow makes a chunk: in the place of one that was given back, or else at the end.
func (s *slab) grow() (*chunk, error) {
	vacant := slices.IndexFunc(s.chunks, func(c *chunk) bool { return c.mr == nil })
	if vacant >= 0 {
		return s.chunks[vacant], s.fill(s.chunks[vacant])
	}
	count := min(max(minChunk, len(s.all)), maxChunk, max(1, chunkBytes/s.stride()))
	if len(s.all)+count > 1<<slotBits {
		return nil, &verbs.ParamError{Field: "buffers", Value: int64(len(s.all) + count), Limit: 1 << slotBits}
	}
	c := &chunk{slab: s, pos: len(s.chunks), base: len(s.all), count: count}
	if err := s.fill(c); err != nil {
		return nil, err
	}
	return c, nil
}

// fill gives a chunk memory, and the slab its buffers.
func (s *slab) fill(c *chunk) error {
	stride := s.stride()
	mr, err := s.pd.Alloc(&verbs.AllocAttr{Size: c.count * stride, Access: verbs.AccessLocalWrite, HugePages: s.huge})
	if err != nil {
		return err
	}
	if c.pos == len(s.chunks) {
		s.chunks = append(s.chunks, c)
		s.all = append(s.all, make([]*Buffer, c.count)...)
	}
	c.mr, c.buffers, c.used = mr, make([]Buffer, c.count), c.count
	for i := c.count - 1; i >= 0; i-- {
		b, at := &c.buffers[i], i*stride
		b.chunk, b.index = c, uint32(c.base+i)
		b.memory = mr.Bytes()[at : at+s.size : at+s.size]
		b.sge[0] = verbs.SGEOf(mr, at, s.size)
		s.all[b.index] = b
		s.put(b)
	}
	s.count += c.count
	if s.grown != nil {
		s.grown()
	}
	return nil
}

// at returns the buffer with an index, or nil.
func (s *slab) at(index uint32) *Buffer {
	if int64(index) >= int64(len(s.all)) {
		return nil
	}
	return s.all[index]
}

// bytes is how much memory the buffers have.
func (s *slab) bytes() uint64 { return uint64(s.count) * uint64(s.size) }

// close ends the memory. Nothing may be posted any more.
func (s *slab) close() (err error) {
	for _, c := range s.chunks {
		if c.mr != nil {
			err = first(err, c.mr.Close())
		}
	}
	s.chunks, s.all, s.count, s.current, s.lowest, s.cursor = nil, nil, 0, nil, 0, 0
	return err
}

// first is the first error of the two.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
