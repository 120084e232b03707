package reactor

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
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

// TestAdaptiveAlone checks that a loop with IdleAdaptive does not poll for its budget if the
// process has one processor.
func TestAdaptiveAlone(t *testing.T) {
	k := clock{origin: time.Now()}
	i := idleState{budget: time.Hour, alone: true}
	for range eventTurns - 1 {
		require.True(t, i.keepSpinning(&k))
	}
	require.False(t, i.keepSpinning(&k))
}

// TestLoopYieldsToWorkers checks that a loop to which functions are posted calls the scheduler
// once after each work, with each policy, so that a goroutine that a callback has started runs
// at once. With one P it would otherwise run only when the loop sleeps, or is preempted.
func TestLoopYieldsToWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for policy := IdleAdaptive; policy <= IdleBusy; policy++ {
		k := clock{origin: time.Now()}
		i := idleState{budget: time.Hour, yields: postYields}
		i.policy.Store(uint32(policy))
		atOnce := 0
		for range postYields {
			ran := make(chan struct{})
			go close(ran) // There is one P, and no preemption before 10 ms.
			require.True(t, i.keepSpinning(&k))
			select {
			case <-ran:
				atOnce++
			default: // Once in a while the scheduler prefers the caller of Gosched.
				<-ran
			}
			i.stopSpin()
		}
		require.Greater(t, atOnce, postYields/2, policy)
		require.Zero(t, i.yields, policy)
		i.yields, i.locked = 1, true
		i.keepSpinning(&k)
		require.EqualValues(t, 1, i.yields, "a locked loop yields: %v", policy)
	}
}

// TestPostedFunctionsCauseYields checks that a loop calls the scheduler after it has called a
// posted function.
func TestPostedFunctionsCauseYields(t *testing.T) {
	l := Loop{mailbox: mailbox{limit: 1}}
	_, err := l.mailbox.put(func() {}, false)
	require.NoError(t, err)
	require.Equal(t, 1, l.runPosted())
	require.EqualValues(t, postYields, l.idle.yields)
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

// TestIdlePolicyText checks that a policy can be a flag.
func TestIdlePolicyText(t *testing.T) {
	for policy := range IdleBusy + 1 {
		f := flag.NewFlagSet("test", flag.ContinueOnError)
		var got IdlePolicy
		f.TextVar(&got, "idle", IdleAdaptive, "")
		require.NoError(t, f.Parse([]string{"-idle", policy.String()}))
		require.Equal(t, policy, got)
		require.Equal(t, policy.String(), f.Lookup("idle").Value.String())
	}
	policy := IdleBusy
	for _, text := range []string{"", "lazy", "Event", "unknown idle policy"} {
		err := policy.UnmarshalText([]byte(text))
		require.EqualError(t, err, fmt.Sprintf("idle policy: %q is none of adaptive, event and busy", text))
		require.ErrorAs(t, err, new(*verbs.ParamError))
	}
	require.Equal(t, IdleBusy, policy, "an error changes nothing")
}

func TestNames(t *testing.T) {
	require.Equal(t, "busy", IdleBusy.String())
	require.Equal(t, "unknown idle policy", IdlePolicy(9).String())
	require.Equal(t, "closed", StateClosed.String())
	require.Equal(t, "unknown connection state", ConnState(9).String())
}
