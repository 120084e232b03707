package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEpollInterval checks how often a loop that does not sleep checks epoll: every
// Config.EpollEvery turns, or openingEpollEvery while a connection opens.
func TestEpollInterval(t *testing.T) {
	for _, c := range []struct{ every, opening, want int }{
		{1024, 0, 1024}, {1024, 1, 16}, {1024, 3, 16}, {4, 0, 4}, {4, 1, 4},
	} {
		l := Loop{cfg: &Config{EpollEvery: c.every}, openingConns: c.opening}
		require.Equal(t, c.want, l.epollInterval(), "%+v", c)
	}
}
