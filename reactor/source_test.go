package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEpollInterval checks how often a loop that does not sleep checks epoll: every
// Config.EpollEvery turns, or after expectedEpollEvery polls while a connection opens or
// soon after an event. With IdleBusy a turn has eight polls.
func TestEpollInterval(t *testing.T) {
	for _, c := range []struct {
		every, opening int
		event          bool
		policy         IdlePolicy
		want           int
	}{
		{1024, 0, false, IdleAdaptive, 1024},
		{1024, 1, false, IdleAdaptive, 8},
		{1024, 3, false, IdleAdaptive, 8},
		{1024, 0, true, IdleAdaptive, 8},
		{1024, 0, false, IdleBusy, 1024},
		{1024, 1, false, IdleBusy, 1},
		{1024, 0, true, IdleBusy, 1},
		{4, 0, false, IdleAdaptive, 4},
		{4, 1, false, IdleAdaptive, 4},
		{1, 1, false, IdleBusy, 1},
	} {
		l := Loop{cfg: &Config{EpollEvery: c.every}, openingConns: c.opening}
		l.idle.policy.Store(uint32(c.policy))
		if c.event {
			l.epoll.handled(l.clock.now)
		}
		require.Equal(t, c.want, l.epollInterval(), "%+v", c)
	}
}
