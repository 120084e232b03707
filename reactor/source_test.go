package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEpollInterval checks how often a loop that does not sleep checks epoll and polls,
// with and without expected events.
func TestEpollInterval(t *testing.T) {
	for _, c := range []struct {
		every, opening int
		event          bool
		policy         IdlePolicy
		interval       int
		polls          int
	}{
		{1024, 0, false, IdleAdaptive, 1024, 1},
		{1024, 0, false, IdleBusy, 1024, busyPolls},
		{1024, 1, false, IdleBusy, expectedEpollEvery, 1},
		{1024, 3, false, IdleAdaptive, expectedEpollEvery, 1},
		{1024, 0, true, IdleBusy, expectedEpollEvery, 1},
		{1, 0, false, IdleBusy, 1, busyPolls},
		{1, 1, false, IdleBusy, 1, 1},
	} {
		l := Loop{cfg: &Config{Limits: Limits{EpollEvery: c.every}}, openingConns: c.opening}
		l.idle.policy.Store(uint32(c.policy))
		if c.event {
			l.epoll.expectMore(l.clock.now)
		}
		require.Equal(t, c.interval, l.epollInterval(), "%+v", c)
		require.Equal(t, c.polls, l.pollsPerTurn(), "%+v", c)
	}
}

func TestEpollSchedule(t *testing.T) {
	const now = time.Second
	var s epollSchedule
	s.fetched = 3
	s.checked(now, 3)
	require.Zero(t, s.fetched)
	require.False(t, s.due(now))
	require.False(t, s.due(now))
	require.True(t, s.due(now), "the third turn")

	s.checked(now, 1000)
	require.False(t, s.due(now+maxEpollInterval-1))
	require.True(t, s.due(now+maxEpollInterval))

	s.checked(now, 1000)
	s.checkSoon()
	require.True(t, s.due(now))
}

// TestEpollScheduleExpectsEvents checks that a loop expects another event for eventGap
// after a connection event.
func TestEpollScheduleExpectsEvents(t *testing.T) {
	const now = time.Second
	var s epollSchedule
	require.False(t, s.expects(now))
	s.checked(now, 1000)
	s.expectMore(now)
	s.checked(now, 1000)
	require.True(t, s.expects(now+eventGap-1))
	require.False(t, s.expects(now+eventGap))
}
