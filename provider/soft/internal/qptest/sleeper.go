//go:build linux

package qptest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Sleeper is an end whose CQ has a completion channel.
type Sleeper struct {
	*End
	Ch verbs.CompChannel
}

// NewSleeper makes a sleeper on a completion vector of its own.
func NewSleeper(t testing.TB, d verbs.Device, vector int, progress verbs.Progress) *Sleeper {
	ch, err := d.CreateCompChannel(&verbs.CompChannelAttr{Vector: vector, Progress: progress})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ch.Close()) })
	e := NewEndOn(t, d, &verbs.CQAttr{Depth: 1024, Vector: vector, Progress: progress, Channel: ch, Cookie: 7})
	return &Sleeper{e, ch}
}

// Sleep waits until the completion channel is readable. After 30 s it fails the test,
// because a wake-up was lost.
func (s *Sleeper) Sleep() {
	s.T.Helper()
	fds := []unix.PollFd{{Fd: int32(s.Ch.FD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 30_000)
		if err == unix.EINTR {
			continue
		}
		require.NoError(s.T, err)
		require.Equal(s.T, 1, n, "the descriptor is not readable")
		return
	}
}

// RequireAsleep polls and arms the CQ. The completion channel must then not be readable,
// because the owner has to sleep.
func (s *Sleeper) RequireAsleep() {
	s.T.Helper()
	for range 4 {
		s.PollN(1)
		require.NoError(s.T, s.CQ.Arm(false))
		s.PollN(1)
		for ok := true; ok; {
			var err error
			_, ok, err = s.Ch.Next()
			require.NoError(s.T, err)
			if ok {
				s.CQ.AckEvents(1)
			}
		}
	}
	require.NoError(s.T, s.CQ.Arm(false))
	s.PollN(1)
	ready, err := fdevent.Readable(s.Ch.FD(), 0)
	require.NoError(s.T, err)
	require.False(s.T, ready)
}
