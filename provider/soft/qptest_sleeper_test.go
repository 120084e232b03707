//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A sleeper is an end whose CQ has a completion channel.
type sleeper struct {
	*end
	ch verbs.CompChannel
}

func newSleeper(t testing.TB, d verbs.Device, vector int, progress verbs.Progress) *sleeper {
	ch, err := d.CreateCompChannel(&verbs.CompChannelAttr{Vector: vector, Progress: progress})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ch.Close()) })
	e := newEndOn(t, d, &verbs.CQAttr{Depth: 1024, Vector: vector, Progress: progress, Channel: ch, Cookie: 7})
	return &sleeper{e, ch}
}

// sleep waits until the completion channel is readable. After 30 s it fails the test,
// because a wake-up was lost.
func (s *sleeper) sleep() {
	s.t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.ch.FD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 30_000)
		if err == unix.EINTR {
			continue
		}
		require.NoError(s.t, err)
		require.Equal(s.t, 1, n, "the descriptor is not readable")
		return
	}
}

// requireAsleep polls and arms the CQ. The completion channel must then not be readable,
// because the owner has to sleep.
func (s *sleeper) requireAsleep() {
	s.t.Helper()
	for range 4 {
		s.pollN(1)
		require.NoError(s.t, s.cq.Arm(false))
		s.pollN(1)
		for ok := true; ok; {
			var err error
			_, ok, err = s.ch.Next()
			require.NoError(s.t, err)
			if ok {
				s.cq.AckEvents(1)
			}
		}
	}
	require.NoError(s.t, s.cq.Arm(false))
	s.pollN(1)
	ready, err := fdevent.Readable(s.ch.FD(), 0)
	require.NoError(s.t, err)
	require.False(s.t, ready)
}
