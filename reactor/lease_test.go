package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestLeaseSize checks the sizes of leased buffers, and that a released buffer is leased
// again without an allocation.
func TestLeaseSize(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	for _, c := range []struct{ n, capacity int }{{0, 4096}, {4096, 4096}, {4097, 8192}, {8192, 8192}, {100_000, 1 << 17}, {1 << 20, 1 << 20}} {
		b, err := p.dialed.Lease(c.n)
		require.NoError(t, err)
		require.Equal(t, c.capacity, b.Cap())
		require.Empty(t, b.Bytes())
		require.NoError(t, b.SetLen(b.Cap()))
		b.Bytes()[b.Cap()-1] = 1
		require.NoError(t, b.Release())
		require.ErrorIs(t, b.Release(), verbs.ErrState)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b, err := p.dialed.Lease(1 << 20)
		if err != nil || b.Release() != nil {
			t.Error("lease or release failed")
		}
	}))
}

// TestLeaseSizeErrors checks sizes out of range, and messages that are too long.
func TestLeaseSizeErrors(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	for _, n := range []int{-1, 1<<30 + 1} {
		_, err := p.dialed.Lease(n)
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.EqualValues(t, n, param.Value)
	}
	b, err := p.dialed.Lease(5000)
	require.NoError(t, err)
	require.ErrorIs(t, p.accepted.SendBuffer(b, nil), verbs.ErrForeign)
	require.NoError(t, b.SetLen(4097))
	var param *verbs.ParamError
	require.ErrorAs(t, p.dialed.SendBuffer(b, nil), &param)
	require.Equal(t, "message", param.Field)
	require.NoError(t, b.SetLen(4096))
	require.NoError(t, p.dialed.SendBuffer(b, nil))
	require.ErrorIs(t, b.Release(), verbs.ErrState)
	require.NoError(t, p.dialed.Close())
	p.closed(t)
	_, err = p.dialed.Lease(5000)
	require.ErrorIs(t, err, reactor.ErrClosed)
}
