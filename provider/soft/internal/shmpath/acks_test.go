//go:build linux

package shmpath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// An acknowledgement has only 32 bits of a position. The sender finds the whole
// position, even after an overflow of these bits.
func TestSHMSentPosition(t *testing.T) {
	const executed = math.MaxUint32 - 1
	s := sentSlots{seq: executed + 4, executed: executed}
	for low, want := range map[uint32]uint64{math.MaxUint32 - 1: executed, math.MaxUint32: executed + 1, 0: executed + 2, 2: executed + 4} {
		at, ok := s.position(low)
		require.True(t, ok, low)
		require.Equal(t, want, at, low)
	}
	for _, low := range []uint32{math.MaxUint32 - 2, 3} {
		_, ok := s.position(low)
		require.False(t, ok, low)
	}
}

func TestAwaitedQueue(t *testing.T) {
	var q awaitedQueue
	require.Nil(t, q.pop(math.MaxUint64))
	conns := make([]Conn, 100)
	next := 0
	for i := range conns {
		q.push(uint64(i), &conns[i])
		if i%3 == 2 {
			require.Nil(t, q.pop(uint64(next)), "the slot is not executed")
			require.Same(t, &conns[next], q.pop(uint64(next+1)))
			next++
		}
	}
	for ; next < len(conns); next++ {
		require.False(t, q.empty())
		require.Same(t, &conns[next], q.pop(math.MaxUint64))
	}
	require.True(t, q.empty())
}

func TestSHMAcks(t *testing.T) {
	var a acks
	require.False(t, a.due(2))
	a.consumed(false)
	require.False(t, a.due(2))
	a.consumed(false)
	require.True(t, a.due(2), "too many slots are not acknowledged")
	require.Equal(t, shm.NewAck(7, 7), a.acknowledge(7, true))
	a.consumed(true)
	a.consumed(false)
	require.True(t, a.due(100), "the peer waits")
	require.Equal(t, shm.NewAck(9, 7), a.acknowledge(9, false), "the peer does not know yet which requests were refused")
	require.False(t, a.due(1))
	require.Equal(t, shm.NewAck(10, 10), a.acknowledge(10, true))
}
