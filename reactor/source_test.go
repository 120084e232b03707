package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// While a connection opens, a loop that does not sleep checks epoll at least every
// openingEpollEvery turns, and at least every Config.EpollEvery turns.
func TestEpollInterval(t *testing.T) {
	for _, c := range []struct{ every, opening, want int }{
		{1024, 0, 1024}, {1024, 1, 16}, {1024, 3, 16}, {4, 0, 4}, {4, 1, 4},
	} {
		l := Loop{cfg: &Config{EpollEvery: c.every}, openingConns: c.opening}
		require.Equal(t, c.want, l.epollInterval(), "%+v", c)
	}
}
