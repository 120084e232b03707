package reactor

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	cacheLine = 64
	// A new chunk has as many buffers as all earlier chunks together, but at least
	// minChunk and at most maxChunk buffers. Arbitrary.
	minChunk = 64
	maxChunk = 4096
	// chunkBytes is the largest size of a chunk with more than one buffer. Unmapping 16
	// MiB stops the loop for about a millisecond.
	chunkBytes = 16 << 20
)

// A slab is registered memory, divided into buffers of one size. It grows by chunks.
// trim returns unused memory to the system.
type slab struct {
	device *loopDevice // device to which the slab belongs; nil in tests
	pd     verbs.PD
	access verbs.Access // access rights of the memory
	size   int          // size of a buffer in bytes
	single bool         // true if each chunk has one buffer, and unused memory is not kept
	huge   bool
	onGrow func() // function that is called after each new chunk, or nil

	chunks []*chunk
	// The buffers by their index. An element is nil if the memory of the buffer was
	// returned to the system.
	all   []*Buffer
	count int // number of buffers that have memory

	// current is the chunk from which buffers are taken. If current is nil, pickChunk
	// must choose a chunk.
	current    *chunk
	searchFrom int // index of the first chunk that may have a free buffer

	trimNext int // index of the chunk that trim checks next
}

// A chunk is one memory region, divided into buffers with consecutive indexes. A chunk
// without memory keeps its indexes, and gets new memory when the slab grows again.
type chunk struct {
	slab    *slab
	pos     int      // index of the chunk in slab.chunks
	base    int      // index of the first buffer
	count   int      // number of buffers of the chunk
	mr      verbs.MR // memory of the chunk; nil if it was returned to the system
	buffers []Buffer

	free *Buffer // list of the chunk's free buffers
	used int     // number of the chunk's buffers that are not free

	usedSinceTrim bool // true if pickChunk has chosen the chunk since the last round of trim
	// freeAtDiscard is the head of the list free at the last call of discard. If the head has
	// changed, a buffer was released, and trim discards again.
	freeAtDiscard *Buffer
	// number of buffers that the steps of discard have checked so far
	scanned int
}

// get returns a free buffer, in state bufferLeased. If there is none, the slab grows.
func (s *slab) get() (*Buffer, error) {
	c := s.current
	if c == nil || c.free == nil {
		var err error
		if c, err = s.pickChunk(); err != nil {
			return nil, err
		}
	}
	b := c.free
	c.free, b.next = b.next, nil
	c.used++
	b.state = bufferLeased
	return b, nil
}

// copyOf returns a copy of the message in b, in a buffer in state bufferLeased.
func (s *slab) copyOf(b *Buffer) (*Buffer, error) {
	to, err := s.get()
	if err != nil {
		return nil, err
	}
	to.length = copy(to.memory, b.Bytes())
	to.imm, to.flags, to.opcode = b.imm, b.flags, b.opcode
	return to, nil
}

// put returns a buffer to the free list of its chunk.
func (s *slab) put(b *Buffer) {
	c := b.chunk
	b.state, b.refillFor, b.detached = bufferFree, nil, false
	b.next, c.free = c.free, b
	c.used--
	if c.pos < s.searchFrom {
		s.searchFrom = c.pos
	}
}

// pickChunk chooses the first chunk with a free buffer. If there is none, it makes a new
// chunk. Because the first chunks are preferred, the last ones become unused, and trim
// can release them.
func (s *slab) pickChunk() (*chunk, error) {
	for s.searchFrom < len(s.chunks) && s.chunks[s.searchFrom].free == nil {
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

// stride returns the distance in bytes between two buffers: their size, rounded up to a
// multiple of the cache line.
func (s *slab) stride() int { return (s.size + cacheLine - 1) &^ (cacheLine - 1) }

// grow allocates the memory of a chunk and returns the chunk. It uses the first chunk
// without memory. If there is none, it adds a chunk at the end.
func (s *slab) grow() (*chunk, error) {
	freed := slices.IndexFunc(s.chunks, func(c *chunk) bool { return c.mr == nil })
	if freed >= 0 {
		return s.chunks[freed], s.allocChunk(s.chunks[freed])
	}
	count := min(max(minChunk, len(s.all)), maxChunk, max(1, chunkBytes/s.stride()))
	if s.single {
		count = 1
	}
	if len(s.all)+count > 1<<slotBits {
		return nil, &verbs.ParamError{Field: "buffers", Value: int64(len(s.all) + count), Limit: 1 << slotBits}
	}
	c := &chunk{slab: s, pos: len(s.chunks), base: len(s.all), count: count}
	if err := s.allocChunk(c); err != nil {
		return nil, err
	}
	return c, nil
}

// allocChunk allocates the memory of a chunk and adds its buffers to the slab.
func (s *slab) allocChunk(c *chunk) error {
	stride := s.stride()
	mr, err := s.pd.Alloc(&verbs.AllocAttr{Size: c.count * stride, Access: s.access, HugePages: s.huge})
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
	if s.onGrow != nil {
		s.onGrow()
	}
	return nil
}

// at returns the buffer with the given index. It returns nil if there is no such buffer,
// or if its memory was returned to the system.
func (s *slab) at(index uint32) *Buffer {
	if int64(index) >= int64(len(s.all)) {
		return nil
	}
	return s.all[index]
}

// bytes returns the total size of all buffers in bytes.
func (s *slab) bytes() uint64 { return uint64(s.count) * uint64(s.size) }

// close releases all memory. No buffer may be in use by the device.
func (s *slab) close() (err error) {
	for _, c := range s.chunks {
		if c.mr != nil {
			err = firstError(err, c.mr.Close())
		}
	}
	s.chunks, s.all, s.count, s.current, s.searchFrom, s.trimNext = nil, nil, 0, nil, 0, 0
	return err
}
