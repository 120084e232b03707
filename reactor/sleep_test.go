package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAdaptiveSpinsForItsBudget(t *testing.T) {
	k := clock{origin: time.Now()}
	i := idleState{budget: time.Hour}
	require.True(t, i.keepSpinning(&k))
	until := i.spinUntil
	require.GreaterOrEqual(t, until, time.Hour)
	k.now = until - 1
	require.True(t, i.keepSpinning(&k))
	k.now = until
	require.False(t, i.keepSpinning(&k))
	i.stopSpin()
	require.True(t, i.keepSpinning(&k), "work begins a new spin budget")
	require.NotEqual(t, until, i.spinUntil)
}

func TestEventAndBusyPolicies(t *testing.T) {
	k := clock{origin: time.Now()}
	i := idleState{budget: time.Hour}
	i.policy.Store(uint32(IdleEvent))
	for range 2 {
		for range eventTurns - 1 {
			require.True(t, i.keepSpinning(&k))
		}
		require.False(t, i.keepSpinning(&k))
		i.stopSpin()
	}
	i.policy.Store(uint32(IdleBusy))
	k.now = 2 * time.Hour
	require.True(t, i.keepSpinning(&k))
}

func TestSleepingLoopYields(t *testing.T) {
	const preemptAfter = 10 * time.Millisecond // the value of forcePreemptNS in the Go runtime (runtime/proc.go)
	require.Less(t, yieldEvery, preemptAfter)
	var i idleState
	require.False(t, i.yieldDue(yieldEvery-1))
	require.True(t, i.yieldDue(yieldEvery))
	require.False(t, i.yieldDue(2*yieldEvery-1), "the last yield was less than yieldEvery ago")
	require.True(t, i.yieldDue(2*yieldEvery+1))
}

func TestNames(t *testing.T) {
	require.Equal(t, "busy", IdleBusy.String())
	require.Equal(t, "unknown idle policy", IdlePolicy(9).String())
	require.Equal(t, "least connections", LeastConnections.String())
	require.Equal(t, "unknown balance", Balance(9).String())
	require.Equal(t, "safety", WakeBySafety.String())
	require.Equal(t, "unknown cause", numWakeCauses.String())
	require.Equal(t, "closed", StateClosed.String())
	require.Equal(t, "unknown connection state", ConnState(9).String())
}
