package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestSlabGrowsAndReuses(t *testing.T) {
	pd := &memorytest.PD{}
	s := slab{pd: pd, size: 100}
	var held []*Buffer
	for range 3 * minChunk {
		b, err := s.get()
		require.NoError(t, err)
		require.Equal(t, 100, b.Cap())
		require.Zero(t, b.sge[0].Addr%cacheLine, "no two buffers share a cache line")
		require.EqualValues(t, 100, b.sge[0].Length)
		held = append(held, b)
	}
	require.Equal(t, 3, pd.Open, "chunks of 64, 64 and 128 buffers")
	for i, b := range held {
		b.memory[0], b.memory[99] = byte(i), byte(i)
	}
	for i, b := range held {
		require.Equal(t, []byte{byte(i), byte(i)}, []byte{b.memory[0], b.memory[99]}, "the buffers do not overlap")
		require.Same(t, b, s.all[b.index])
		require.NoError(t, b.Release())
		require.ErrorIs(t, b.Release(), verbs.ErrState)
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
		s := slab{pd: &memorytest.PD{}, size: size}
		_, err := s.get()
		require.NoError(t, err)
		require.Equal(t, first, s.count, "%d bytes", size)
	}
}

func TestSlabWithoutMemory(t *testing.T) {
	pd := &memorytest.PD{Refuse: errors.New("no memory")}
	s := slab{pd: pd, size: 100}
	_, err := s.get()
	require.ErrorIs(t, err, pd.Refuse)
}

// TestKeepWithoutMemory checks that the receive queue lacks a kept buffer until the
// release if there is no memory for another one.
func TestKeepWithoutMemory(t *testing.T) {
	pd := &memorytest.PD{}
	l := &Loop{}
	c := &Conn{loop: l, state: stateOpen, device: &loopDevice{loop: l, slab: slab{pd: pd, size: 10}}}
	c.recvs = newRecvQueue(minChunk, 0)
	for range minChunk {
		b, err := c.device.slab.get()
		require.NoError(t, err)
		c.recvs.stage(b)
	}
	c.recvs.posted = c.recvs.head // All buffers now count as posted.
	pd.Refuse = errors.New("no memory")

	b := c.recvs.complete(0)
	b.state, l.currentMessage = bufferDelivered, b
	m := Message{conn: c, buffer: b}
	require.Same(t, b, m.Keep())
	require.Same(t, b, m.Keep())
	l.currentMessage = nil
	require.Nil(t, m.Keep(), "Keep returns nil after OnMessage has returned")
	require.EqualValues(t, minChunk-1, c.recvs.head-c.recvs.tail)
	require.NoError(t, b.Release())
	require.EqualValues(t, minChunk, c.recvs.head-c.recvs.tail)
	require.Equal(t, bufferPosted, b.state)
}

func TestRecvQueueTakesCompletionsInOrder(t *testing.T) {
	q := newRecvQueue(3, wrID(5)<<indexShift)
	buffers := make([]Buffer, 3)
	for i := range buffers {
		q.stage(&buffers[i])
	}
	require.Nil(t, q.complete(0), "the buffer is not posted yet")
	q.posted = q.head
	require.Nil(t, q.complete(1), "the slot does not have the oldest buffer")
	require.Nil(t, q.complete(9))
	require.Same(t, &buffers[0], q.complete(0))
	require.Same(t, &buffers[1], q.take())
	require.Same(t, &buffers[2], q.take())
	require.Nil(t, q.take())
	require.Zero(t, q.inFlight())
}
