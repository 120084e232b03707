//go:build linux

package packets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnPace(t *testing.T) {
	var p turnPace
	now, readings := time.Hour, 0
	turns := func(n int, each time.Duration) (short bool) {
		for range n {
			now += each
			short = p.next(func() time.Duration { readings++; return now })
		}
		return short
	}
	require.False(t, turns(PaceTurns, 0), "no earlier reading")
	require.False(t, turns(PaceTurns-1, 0))
	require.True(t, turns(1, 0))
	require.True(t, turns(PaceTurns, maxShortTurn-1))
	turns(1, PaceTurns*maxShortTurn)
	require.True(t, turns(PaceTurns-1, 0), "one long turn")
	require.True(t, turns(PaceTurns, 0))
	require.True(t, turns(PaceTurns, maxShortTurn))
	require.False(t, turns(PaceTurns, maxShortTurn))
	require.True(t, turns(PaceTurns, 0))
	require.Equal(t, 8, readings)
}
