package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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

// TestRecvSide checks that a connection posts and counts its receives of either kind.
func TestRecvSide(t *testing.T) {
	own := recvSide{own: newRecvQueue(4, 0)}
	for range 3 {
		own.own.stage(&Buffer{})
	}
	empty := recvSide{empty: newEmptyRecvs(3, 0)}
	for _, r := range []*recvSide{&own, &empty} {
		require.EqualValues(t, 3, r.staged())
		require.Zero(t, r.inFlight())
		doorbells, err := r.post(idleQP{})
		require.NoError(t, err)
		require.EqualValues(t, 1, doorbells)
		require.Zero(t, r.staged())
		require.EqualValues(t, 3, r.inFlight())
		doorbells, err = r.post(idleQP{})
		require.NoError(t, err)
		require.Zero(t, doorbells)
	}
}
