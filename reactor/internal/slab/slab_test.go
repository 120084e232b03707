package slab

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A piece is the buffer of a slot in these tests.
type piece struct {
	memory []byte
	sge    verbs.SGE
}

// newTestPool makes a pool without a limit.
func newTestPool(pd verbs.PD, size int) *Pool[piece] {
	p := &Pool[piece]{}
	p.Init(Config[piece]{
		PD: pd, Size: size, Limit: 1 << 23,
		Attach: func(t *Slot[piece], memory []byte, sge verbs.SGE) { t.Buffer = piece{memory, sge} },
		Detach: func(b *piece) { b.memory = nil },
	})
	return p
}

func TestSlabGrowsAndReuses(t *testing.T) {
	pd := &memorytest.PD{}
	s := &newTestPool(pd, 100).small
	var held []*Slot[piece]
	for range 3 * minChunk {
		b, err := s.get()
		require.NoError(t, err)
		require.Len(t, b.Buffer.memory, 100)
		require.Zero(t, b.Buffer.sge.Addr%cacheLine, "no two buffers share a cache line")
		require.EqualValues(t, 100, b.Buffer.sge.Length)
		held = append(held, b)
	}
	require.Equal(t, 3, pd.Open, "chunks of 64, 64 and 128 buffers")
	for i, b := range held {
		b.Buffer.memory[0], b.Buffer.memory[99] = byte(i), byte(i)
	}
	for i, b := range held {
		require.Equal(t, []byte{byte(i), byte(i)}, []byte{b.Buffer.memory[0], b.Buffer.memory[99]}, "the buffers do not overlap")
		require.Same(t, b, s.all[b.Index])
		b.Put()
	}
	for range len(held) {
		_, err := s.get()
		require.NoError(t, err)
	}
	require.Equal(t, 3, pd.Open, "the released buffers are used again")
	require.NoError(t, s.close())
	require.Zero(t, pd.Open)
	require.Zero(t, s.bytes())
}

// TestSlabBoundsTheBytesOfAChunk checks that a chunk has few buffers if they are large.
func TestSlabBoundsTheBytesOfAChunk(t *testing.T) {
	for size, first := range map[int]int{1 << 10: minChunk, 1 << 20: 16, chunkBytes: 1, chunkBytes + 1: 1} {
		s := &newTestPool(&memorytest.PD{}, size).small
		_, err := s.get()
		require.NoError(t, err)
		require.Equal(t, first, s.count, "%d bytes", size)
	}
}

func TestSlabWithoutMemory(t *testing.T) {
	pd := &memorytest.PD{Refuse: errors.New("no memory")}
	s := &newTestPool(pd, 100).small
	_, err := s.get()
	require.ErrorIs(t, err, pd.Refuse)
}
