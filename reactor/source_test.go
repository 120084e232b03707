package reactor

import (
	"testing"

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
		l := Loop{cfg: &Config{EpollEvery: c.every}, openingConns: c.opening}
		l.idle.policy.Store(uint32(c.policy))
		if c.event {
			l.epoll.expectMore(l.clock.now)
		}
		require.Equal(t, c.interval, l.epollInterval(), "%+v", c)
		require.Equal(t, c.polls, l.pollsPerTurn(), "%+v", c)
	}
}
