package slab

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// trimRound calls slab.trim until every chunk was checked. It returns the number of
// calls.
func trimRound(t *testing.T, s *slab[piece]) (steps int) {
	t.Helper()
	for {
		more, err := s.trim()
		require.NoError(t, err)
		steps++
		if !more {
			return steps
		}
	}
}

// getBuffers takes n buffers from the slab.
func getBuffers(t *testing.T, s *slab[piece], n int) (held []*Slot[piece]) {
	t.Helper()
	for range n {
		b, err := s.get()
		require.NoError(t, err)
		held = append(held, b)
	}
	return held
}

func release(t *testing.T, held []*Slot[piece]) {
	t.Helper()
	for _, b := range held {
		b.Put()
	}
}

// TestSlabReturnsMemory checks that slab.trim() returns the memory of a chunk that was
// not used since the last round. The first chunk stays.
func TestSlabReturnsMemory(t *testing.T) {
	pd := &memorytest.PD{}
	s := &newTestPool(pd, 100).small
	held := getBuffers(t, s, 10_000)
	most, chunks := s.bytes(), pd.Open
	trimRound(t, s)
	trimRound(t, s)
	require.Equal(t, most, s.bytes(), "all buffers are in use")

	release(t, held)
	steps := trimRound(t, s)
	require.Equal(t, chunks+1, steps, "one call for each chunk, and a last call that finds no chunk")
	require.Equal(t, 1, pd.Open)
	require.EqualValues(t, minChunk*100, s.bytes())
	require.Len(t, s.all, minChunk, "the slices shrink too")
	for _, b := range held[minChunk:] {
		require.Nil(t, b.Buffer.memory, "a released buffer has no bytes")
	}
	require.Nil(t, s.at(minChunk))
	require.NoError(t, s.close())
	require.Zero(t, pd.Open)
}

// TestSlabKeepsUsedChunks checks that slab.trim() keeps a chunk that was used between two
// rounds.
func TestSlabKeepsUsedChunks(t *testing.T) {
	pd := &memorytest.PD{}
	s := &newTestPool(pd, 100).small
	for range 3 {
		release(t, getBuffers(t, s, 3*minChunk))
		trimRound(t, s)
		require.Equal(t, 3, pd.Open)
	}
	trimRound(t, s)
	require.Equal(t, 1, pd.Open)
}

// TestSlabReusesIndexes checks that a slab can grow again after slab.trim(). A chunk with
// new memory keeps the indexes of its buffers.
func TestSlabReusesIndexes(t *testing.T) {
	pd := &memorytest.PD{}
	s := &newTestPool(pd, 100).small
	held := getBuffers(t, s, 1000)
	last := held[999]
	release(t, held[:999])
	trimRound(t, s)
	trimRound(t, s)
	require.Equal(t, 2, pd.Open, "the first chunk and the chunk in use are left")
	require.Same(t, last, s.at(last.Index))
	require.Nil(t, s.at(minChunk))

	total := len(s.all)
	held = getBuffers(t, s, total-1)
	require.Len(t, s.all, total, "the buffers have no more indexes than before")
	for _, b := range append(held, last) {
		require.Same(t, b, s.at(b.Index))
	}
}

// TestSlabPrefersFirstChunks checks that slab.get prefers the first chunks, so that the
// last chunks become unused.
func TestSlabPrefersFirstChunks(t *testing.T) {
	pd := &memorytest.PD{}
	s := &newTestPool(pd, 100).small
	held := getBuffers(t, s, 4000)
	rng := rand.New(rand.NewPCG(3, 4))
	rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	release(t, held[100:])
	held = held[:100]
	// Each round replaces about half of the 100 buffers by others.
	for range 20 {
		for i := range held {
			if rng.IntN(2) == 0 {
				held[i].Put()
				held[i] = getBuffers(t, s, 1)[0]
			}
		}
		trimRound(t, s)
	}
	trimRound(t, s)
	require.LessOrEqual(t, s.count, 4*minChunk, "100 buffers are in use")
}

func TestSlabCloseFails(t *testing.T) {
	pd := &memorytest.PD{}
	s := &newTestPool(pd, 100).small
	release(t, getBuffers(t, s, 2*minChunk))
	trimRound(t, s)
	pd.Refuse = errors.New("busy")
	_, err := s.trim()
	require.NoError(t, err, "the first chunk is not closed")
	_, err = s.trim()
	require.ErrorIs(t, err, pd.Refuse)
	require.Equal(t, 2, pd.Open)
	getBuffers(t, s, 2*minChunk)
	pd.Refuse = nil
	require.NoError(t, s.close())
	require.Zero(t, pd.Open)
}

// A pagedMR is a memory region that records its discarded pages.
type pagedMR struct {
	*memorytest.MR
	absent []bool // element i says whether page i was discarded
	calls  int
	refuse error
}

type pagedPD struct {
	memorytest.PD
	mrs []*pagedMR
}

func (p *pagedPD) Alloc(attr *verbs.AllocAttr) (verbs.MR, error) {
	mr, err := p.PD.Alloc(attr)
	m := &pagedMR{MR: mr.(*memorytest.MR), absent: make([]bool, attr.Size/os.Getpagesize())}
	p.mrs = append(p.mrs, m)
	return m, err
}

func (m *pagedMR) Discard(offset, length int) error {
	m.calls++
	if m.refuse != nil {
		return m.refuse
	}
	page := os.Getpagesize()
	for i := (offset + page - 1) / page; i < (offset+length)/page; i++ {
		m.absent[i] = true
	}
	return nil
}

func (m *pagedMR) present() (n int) {
	for _, absent := range m.absent {
		if !absent {
			n++
		}
	}
	return n
}

// TestSlabDiscardsPages checks that slab.trim() discards the pages of free buffers in a
// partly used chunk, and no others.
func TestSlabDiscardsPages(t *testing.T) {
	page := os.Getpagesize()
	for name, size := range map[string]int{"a page": page, "three": 3 * page, "a quarter": page / 4} {
		t.Run(name, func(t *testing.T) {
			pd := &pagedPD{}
			s := &newTestPool(pd, size).small
			held := getBuffers(t, s, 2*minChunk)
			second := pd.mrs[1]
			pages := len(second.absent)
			release(t, slices.Concat(held[:minChunk], held[minChunk+1:]))
			trimRound(t, s)
			require.Equal(t, pages, second.present(), "the chunk was used before the first round")
			trimRound(t, s)
			require.Equal(t, (size+page-1)/page, second.present(), "only the pages of the buffer in use are present")
			require.Zero(t, pd.mrs[0].present(), "the unused first chunk stays, without pages")
			calls := second.calls
			trimRound(t, s)
			trimRound(t, s)
			require.Equal(t, calls, second.calls, "no buffer was used, so nothing is discarded again")

			held[minChunk].Put()
			trimRound(t, s)
			require.Equal(t, 1, pd.Open, "the memory of the unused chunk is returned")
		})
	}
}

// TestSlabDiscardsLaterReleases checks that a round of slab.trim() also discards buffers
// that were released after the previous round.
func TestSlabDiscardsLaterReleases(t *testing.T) {
	pd := &pagedPD{}
	s := &newTestPool(pd, os.Getpagesize()).small
	held := getBuffers(t, s, minChunk)
	release(t, held[:10])
	trimRound(t, s)
	trimRound(t, s)
	require.Equal(t, minChunk-10, pd.mrs[0].present())
	release(t, held[10:20])
	trimRound(t, s)
	require.Equal(t, minChunk-20, pd.mrs[0].present())
}

// TestSlabDiscardsInSteps checks that one call of slab.trim() discards at most
// maxDiscards times. Buffers that are taken between the steps keep their memory.
func TestSlabDiscardsInSteps(t *testing.T) {
	pd := &pagedPD{}
	s := &newTestPool(pd, os.Getpagesize()).small
	held := getBuffers(t, s, maxChunk+minChunk)
	// All buffers of this chunk are in use.
	biggest := pd.mrs[len(pd.mrs)-2]
	count := len(biggest.absent)
	require.Greater(t, count, 4*maxDiscards)
	for i, b := range held { // The loop releases every second buffer.
		if i%2 == 0 {
			b.Put()
		}
	}
	trimRound(t, s)
	before := biggest.calls
	for more := true; more; {
		var err error
		more, err = s.trim()
		require.NoError(t, err)
		require.LessOrEqual(t, biggest.calls-before, maxDiscards)
		before = biggest.calls
	}
	require.Equal(t, count/2, biggest.present())

	release(t, held[1:2])
	for range 2 {
		trimRound(t, s)
	}
	fresh := getBuffers(t, s, 1)[0]
	fresh.Buffer.memory[0] = 1
	trimRound(t, s)
	trimRound(t, s)
	require.EqualValues(t, 1, fresh.Buffer.memory[0])
}

// TestSlabDiscardFails checks that slab.trim() does not repeat a failed discard.
func TestSlabDiscardFails(t *testing.T) {
	pd := &pagedPD{}
	s := &newTestPool(pd, os.Getpagesize()).small
	release(t, getBuffers(t, s, minChunk))
	pd.mrs[0].refuse = errors.New("huge pages")
	for range 5 {
		trimRound(t, s)
	}
	require.Equal(t, 1, pd.mrs[0].calls)
}
