package cq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
)

func TestIDsLateCompletion(t *testing.T) {
	var ids cq.IDs[string]
	first := ids.Put("first")
	require.NotZero(t, first)
	v, ok := ids.Take(first)
	require.True(t, ok)
	require.Equal(t, "first", v)

	successor := ids.Put("successor") // in the same slot
	require.NotEqual(t, first, successor)
	_, ok = ids.Take(first)
	require.False(t, ok, "a duplicate completion")
	_, ok = ids.Get(first)
	require.False(t, ok)

	p, ok := ids.Get(successor)
	require.True(t, ok)
	*p = "changed"
	v, _ = ids.Take(successor)
	require.Equal(t, "changed", v)
	require.Zero(t, ids.Len())
}

func TestIDsUnknownNumbers(t *testing.T) {
	var ids cq.IDs[int]
	id := ids.Put(1)
	for _, other := range []uint64{0, 1, id + 1, id + 1<<32, id - 1<<32, 1<<64 - 1} {
		_, ok := ids.Get(other)
		require.False(t, ok, "%#x", other)
		_, ok = ids.Take(other)
		require.False(t, ok, "%#x", other)
	}
	require.Equal(t, 1, ids.Len())
}

func TestIDsDoNotAllocate(t *testing.T) {
	var ids cq.IDs[[4]uint64]
	ids.Take(ids.Put([4]uint64{}))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ids.Take(ids.Put([4]uint64{1}))
	}))
}
