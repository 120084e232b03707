package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestLoopTrims checks that the loop calls loopDevice.trim() until unused memory is
// freed.
func TestLoopTrims(t *testing.T) {
	pd := &memorytest.PD{}
	l := &Loop{cfg: &Config{}, clock: clock{origin: time.Now()}}
	n := newTestDevice(l, pd, 100)
	n.domain, n.queues = &memory.Domain{PD: pd}, []*completionQueue{{device: n}}
	n.pool.OnGrow = n.startTrimTimer
	var held []*Buffer
	for range 1000 {
		b, err := n.smallBuffer()
		require.NoError(t, err)
		held = append(held, b)
	}
	for _, b := range held {
		require.NoError(t, b.Release())
	}
	require.Greater(t, pd.Open, 1)
	for l.clock.now = 0; pd.Open > 1; l.clock.now += trimPause {
		require.LessOrEqual(t, l.clock.now, 2*trimEvery+time.Second)
		l.timers.Expire(l.clock.now)
		l.clock.origin = time.Now().Add(-l.clock.now)
	}
	require.Equal(t, 1, l.timers.Len(), "the timer is set again")
	last := held[len(held)-1]
	require.Empty(t, last.Bytes(), "a released buffer has no bytes")
	require.ErrorIs(t, last.Release(), verbs.ErrState)
}
