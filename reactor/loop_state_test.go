package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Functions that the engine posts late do not make a loop leave a later state.
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
