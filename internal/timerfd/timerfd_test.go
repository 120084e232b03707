//go:build linux

package timerfd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerfd"
)

// Limit of a wait in milliseconds. Only a failing test reaches it.
const testTimeout = 10_000

func newTimer(t *testing.T) int {
	fd, err := timerfd.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// readable reports whether fd becomes readable within the timeout in milliseconds.
func readable(t *testing.T, fd, timeout int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, timeout)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		return n == 1
	}
}

func TestTimerExpiresOnce(t *testing.T) {
	fd := newTimer(t)
	require.False(t, readable(t, fd, 0), "a new timer is not set")
	start := time.Now()
	require.NoError(t, timerfd.Set(fd, 5*time.Millisecond))
	require.True(t, readable(t, fd, testTimeout))
	require.GreaterOrEqual(t, time.Since(start), 5*time.Millisecond)
	timerfd.Drain(fd)
	require.False(t, readable(t, fd, 20))
	timerfd.Drain(fd) // Drain must not block.
}

// TestNoTimeLeft checks that a timer expires at once if its time is zero or negative.
func TestNoTimeLeft(t *testing.T) {
	fd := newTimer(t)
	for _, after := range []time.Duration{0, -1, -time.Hour} {
		require.NoError(t, timerfd.Set(fd, after))
		require.True(t, readable(t, fd, testTimeout), "after %v", after)
		timerfd.Drain(fd)
	}
}

func TestSetReplacesTheTime(t *testing.T) {
	fd := newTimer(t)
	require.NoError(t, timerfd.Set(fd, time.Hour))
	require.NoError(t, timerfd.Set(fd, 1))
	require.True(t, readable(t, fd, testTimeout))
	require.NoError(t, timerfd.Set(fd, time.Hour))
	require.False(t, readable(t, fd, 0))
}

func TestStop(t *testing.T) {
	fd := newTimer(t)
	require.NoError(t, timerfd.Set(fd, 1))
	require.True(t, readable(t, fd, testTimeout))
	require.NoError(t, timerfd.Stop(fd))
	require.False(t, readable(t, fd, 0))
}

func TestTimersDoNotAllocate(t *testing.T) {
	fd := newTimer(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = timerfd.Set(fd, time.Hour)
		_ = timerfd.Stop(fd)
		timerfd.Drain(fd)
	}))
}

func TestErrors(t *testing.T) {
	require.ErrorIs(t, timerfd.Set(-1, time.Second), unix.EBADF)
	require.ErrorIs(t, timerfd.Stop(-1), unix.EBADF)
}
