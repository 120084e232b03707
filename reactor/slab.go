package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

const (
	cacheLine = 64
	// A chunk is one registration; each has as many buffers as all before it,
	// within these bounds.
	minChunk = 64
	maxChunk = 4096
)

// A slab is registered memory cut into buffers of one size, for receiving and
// sending. It grows, and never shrinks before it is closed.
type slab struct {
	pd     verbs.PD
	size   int // bytes of a buffer
	huge   bool
	chunks []verbs.MR
	all    []*Buffer // by index
	free   *Buffer   // those not in use
}

// get takes a buffer, growing the slab when there is none.
func (s *slab) get() (*Buffer, error) {
	if s.free == nil {
		if err := s.grow(min(max(minChunk, len(s.all)), maxChunk)); err != nil {
			return nil, err
		}
	}
	b := s.free
	s.free, b.next = b.next, nil
	b.use = leased
	return b, nil
}

// put takes a buffer back.
func (s *slab) put(b *Buffer) {
	b.use, b.owed = free, nil
	b.next, s.free = s.free, b
}

func (s *slab) grow(count int) error {
	stride := (s.size + cacheLine - 1) &^ (cacheLine - 1)
	if len(s.all)+count > 1<<slotBits {
		return &verbs.ParamError{Field: "buffers", Value: int64(len(s.all) + count), Limit: 1 << slotBits}
	}
	mr, err := s.pd.Alloc(&verbs.AllocAttr{Size: count * stride, Access: verbs.AccessLocalWrite, HugePages: s.huge})
	if err != nil {
		return err
	}
	s.chunks = append(s.chunks, mr)
	chunk := make([]Buffer, count)
	for i := range chunk {
		b := &chunk[i]
		at := i * stride
		b.slab, b.index = s, uint32(len(s.all))
		b.memory = mr.Bytes()[at : at+s.size : at+s.size]
		b.sge[0] = verbs.SGEOf(mr, at, s.size)
		s.all = append(s.all, b)
	}
	for i := len(chunk) - 1; i >= 0; i-- {
		s.put(&chunk[i])
	}
	return nil
}

// close ends the memory. Nothing may be posted any more.
func (s *slab) close() (err error) {
	for _, mr := range s.chunks {
		err = first(err, mr.Close())
	}
	s.chunks, s.all, s.free = nil, nil, nil
	return err
}

// first is the first error of the two.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
