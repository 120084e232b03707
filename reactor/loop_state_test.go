package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLoopStateNeverReturns checks that a loop never returns to an earlier state, even
// if shutdown functions run late or twice.
func TestLoopStateNeverReturns(t *testing.T) {
	l := &Loop{}
	require.Equal(t, loopRunning, l.state)
	l.drain()
	require.Equal(t, loopDraining, l.state)
	l.abortConns()
	require.Equal(t, loopAborting, l.state)
	l.drain()
	require.Equal(t, loopAborting, l.state)
	l.enter(loopEnded)
	l.drain()
	l.abortConns()
	require.Equal(t, loopEnded, l.state)
}
