//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sharedBuffers is the number of buffers of newSharedEnds. Arbitrary.
const sharedBuffers = 64

// newSharedEnds returns a shared receive queue with sharedBuffers buffers, and n ends
// that use the queue.
func newSharedEnds(first *fakeEnd, n int) (*srq, []*fakeEnd) {
	s, err := first.pd.CreateSRQ(&verbs.SRQAttr{CQ: first.cq, MaxWR: sharedBuffers, MaxSGE: 1})
	require.NoError(first.t, err)
	first.t.Cleanup(func() { require.NoError(first.t, s.Close()) })
	own := s.(*srq)
	own.fill(first.t, first.mr)
	ends := make([]*fakeEnd, n)
	for i := range ends {
		other := *first
		other.qp = first.newQP(&verbs.QPInitAttr{SRQ: s})
		first.t.Cleanup(func() { require.NoError(first.t, other.qp.Close()) })
		ends[i] = &other
	}
	return own, ends
}

// fill posts receive buffers until the shared receive queue is full.
func (s *srq) fill(t testing.TB, mr verbs.MR) {
	for s.rq.tail-s.rq.head+s.rq.held < s.rq.depth {
		_, err := s.PostRecv([]verbs.RecvWR{{ID: 7, SGEs: []verbs.SGE{verbs.SGEOf(mr, 0, 4096)}}})
		require.NoError(t, err)
	}
}

// While there are four buffers for each queue pair, there are no shares. Otherwise a
// source may hold an eighth of the buffers that the messages of others do not hold, and
// at least one. BuffersPerQP takes the limit away.
func TestPartialShare(t *testing.T) {
	fill := func(b *partialBuffers, s *partialShare, size, qps int) int {
		for s.held < size && b.allows(s, size, qps) {
			s.held++
			b.held++
		}
		return s.held
	}
	var b partialBuffers
	first := b.join(oneSource(0))
	require.Same(t, first, b.join(oneSource(1)))
	require.Equal(t, 128, fill(&b, first, 1024, 1100))
	require.True(t, b.allows(first, 1024, 256), "there are four buffers for each queue pair")
	require.False(t, b.allows(first, 1024, 257))
	for i := range uint32(15) {
		s := b.join(access.LocalSource(1000+i, 0))
		require.LessOrEqual(t, fill(&b, s, 1024, 1100), 112)
	}
	require.Less(t, b.held, 1024-120, "16 sources leave (7/8)^16 of the buffers")
	b.unlimited = true
	require.True(t, b.allows(first, 1024, 1100))

	var small partialBuffers
	require.Equal(t, 1, fill(&small, small.join(oneSource(0)), 3, 8))
}

// SRQAttr.BuffersPerQP takes the limit away. It is not negative.
func TestBuffersPerQP(t *testing.T) {
	e := newFakeEnd(t, newFakeHost(t, 1), nil)
	for n, want := range []bool{false, true} {
		s, err := e.pd.CreateSRQ(&verbs.SRQAttr{CQ: e.cq, MaxWR: 4, MaxSGE: 1, BuffersPerQP: n})
		require.NoError(t, err)
		require.Equal(t, want, s.(*srq).partial.unlimited)
		require.NoError(t, s.Close())
	}
	var wrong *verbs.ParamError
	_, err := e.pd.CreateSRQ(&verbs.SRQAttr{CQ: e.cq, MaxWR: 4, MaxSGE: 1, BuffersPerQP: -1})
	require.ErrorAs(t, err, &wrong)
}
