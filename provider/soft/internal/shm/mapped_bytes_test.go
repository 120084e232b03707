package shm

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestMappedBytes(t *testing.T) {
	require.NotErrorIs(t, errPeerLimit, verbs.ErrNoResources)
	one, two := Process{UID: 1, PID: -1}, Process{UID: 1, PID: -2}
	b := newMappedBytes(ByteLimits{Process: 100, All: 150})
	require.NoError(t, b.add(one, 60, false))
	require.ErrorIs(t, b.add(one, 41, false), errPeerLimit, "limit of a process")
	require.ErrorIs(t, b.add(one, math.MaxUint64, false), errPeerLimit)
	require.NoError(t, b.add(one, 40, false))
	require.ErrorIs(t, b.add(two, 51, false), verbs.ErrNoResources, "limit of all processes")
	require.NoError(t, b.add(two, 50, false))
	b.remove(one, 60)
	require.NoError(t, b.add(two, 50, false), "removed bytes are free for others")
	b.remove(one, 40)
	b.remove(two, 100)
	require.Empty(t, b.of)
	require.Zero(t, b.all)

	require.NoError(t, b.add(Process{PID: int32(os.Getpid())}, 1000, false), "own memory does not count")
	require.Zero(t, b.all)

	require.NoError(t, b.add(one, 88, true))
	require.ErrorIs(t, b.add(one, 1, true), errPeerLimit, "regions leave an eighth to segments")
	require.NoError(t, b.add(one, 12, false))
	b.remove(one, 100)

	none := newMappedBytes(ByteLimits{})
	require.NoError(t, none.add(one, 1<<62, false))
	require.NoError(t, none.add(one, 1<<62, false))
}
