//go:build linux

package access

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUserLimitCounts(t *testing.T) {
	const own, other, unmapped = 1000, 1001, 65534
	l := NewUserLimit(2, Users{own: own, unmapped: unmapped})
	for range 5 {
		require.True(t, l.Acquire(own))
		require.True(t, l.Acquire(0))
	}
	for _, uid := range []uint32{other, unmapped} {
		require.True(t, l.Acquire(uid))
		require.True(t, l.Acquire(uid))
		require.False(t, l.Acquire(uid))
		l.Release(uid)
		require.True(t, l.Acquire(uid))
	}
	l.Release(other)
	l.Release(other)
	require.Equal(t, map[uint32]int{own: 5, 0: 5, unmapped: 2}, l.Counts(), "users without connections are removed")

	l = NewUserLimit(1, Users{own: unmapped, unmapped: unmapped})
	require.True(t, l.Acquire(unmapped))
	require.False(t, l.Acquire(unmapped), "the number may stand for another user")
	l = NewUserLimit(-1, Users{own: own})
	for range 100 {
		require.True(t, l.Acquire(other))
	}
	require.Positive(t, NewUserLimit(0, Users{}).limit)
}
