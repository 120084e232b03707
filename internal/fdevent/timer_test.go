//go:build linux

package fdevent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

func newTimer(t *testing.T) *fdevent.Timer {
	timer, err := fdevent.NewTimer(nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = timer.Close() })
	return timer
}

func TestTimerExpiresOnce(t *testing.T) {
	timer := newTimer(t)
	require.False(t, readable(t, timer.FD(), 0), "a new timer is not set")
	start := time.Now()
	require.NoError(t, timer.Set(5*time.Millisecond))
	require.True(t, readable(t, timer.FD(), testTimeout))
	require.GreaterOrEqual(t, time.Since(start), 5*time.Millisecond)
	timer.Drain()
	require.False(t, readable(t, timer.FD(), 20*time.Millisecond))
	timer.Drain() // Drain must not block.
}

// TestNoTimeLeft checks that a timer expires at once if its time is zero or negative.
func TestNoTimeLeft(t *testing.T) {
	timer := newTimer(t)
	for _, after := range []time.Duration{0, -1, -time.Hour} {
		require.NoError(t, timer.Set(after))
		require.True(t, readable(t, timer.FD(), testTimeout), "after %v", after)
		timer.Drain()
	}
}

func TestSetReplacesTheTime(t *testing.T) {
	timer := newTimer(t)
	require.NoError(t, timer.Set(time.Hour))
	require.NoError(t, timer.Set(1))
	require.True(t, readable(t, timer.FD(), testTimeout))
	require.NoError(t, timer.Set(time.Hour))
	require.False(t, readable(t, timer.FD(), 0))
}

func TestStop(t *testing.T) {
	timer := newTimer(t)
	require.NoError(t, timer.Set(1))
	require.True(t, readable(t, timer.FD(), testTimeout))
	require.NoError(t, timer.Stop())
	require.False(t, readable(t, timer.FD(), 0))
}

func TestTimersDoNotAllocate(t *testing.T) {
	timer := newTimer(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = timer.Set(time.Hour)
		_ = timer.Stop()
		timer.Drain()
	}))
}

func TestErrors(t *testing.T) {
	timer := newTimer(t)
	require.NoError(t, timer.Close())
	require.ErrorIs(t, timer.Set(time.Second), unix.EBADF)
	require.ErrorIs(t, timer.Stop(), unix.EBADF)
}
