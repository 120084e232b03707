package shm

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMappedBytes(t *testing.T) {
	one, two := Process{UID: 1, PID: -1}, Process{UID: 1, PID: -2}
	b := newMappedBytes(ByteLimits{Process: 100, All: 150})
	require.True(t, b.add(one, 60))
	require.False(t, b.add(one, 41), "limit of a process")
	require.False(t, b.add(one, math.MaxUint64))
	require.True(t, b.add(one, 40))
	require.False(t, b.add(two, 51), "limit of all processes")
	require.True(t, b.add(two, 50))
	b.remove(one, 60)
	require.True(t, b.add(two, 50), "removed bytes are free for others")
	b.remove(one, 40)
	b.remove(two, 100)
	require.Empty(t, b.of)
	require.Zero(t, b.all)

	require.True(t, b.add(Process{PID: int32(os.Getpid())}, 1000), "own memory does not count")
	require.Zero(t, b.all)

	none := newMappedBytes(ByteLimits{})
	require.True(t, none.add(one, 1<<62))
	require.True(t, none.add(one, 1<<62))
}
