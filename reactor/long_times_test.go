package reactor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestLongTimesDoNotOverflow checks that a timer, a tick, an idle timeout and a deadline
// with the longest time do not fire.
func TestLongTimesDoNotOverflow(t *testing.T) {
	ticks := 0
	p := connect(t, &hooks{tick: func(*reactor.Loop) time.Duration { ticks++; return math.MaxInt64 }}, &hooks{},
		&reactor.Config{DrainTimeout: math.MaxInt64, DecisionTimeout: math.MaxInt64})
	fired := false
	p.client.After(math.MaxInt64, func() { fired = true })
	p.dialed.SetIdleTimeout(math.MaxInt64)
	p.accepted.SetDeadline(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	for range 100 { // the loops check their timers in every eighth call of RunOnce
		_, err := p.client.RunOnce(0)
		require.NoError(t, err)
		_, err = p.server.RunOnce(0)
		require.NoError(t, err)
	}
	require.False(t, fired)
	require.Equal(t, 1, ticks)
	require.Equal(t, reactor.StateOpen, p.dialed.State())
	require.Equal(t, reactor.StateOpen, p.accepted.State())
}

// TestRunOnceWithALongTimeout checks that RunOnce with the longest timeout waits for
// work.
func TestRunOnceWithALongTimeout(t *testing.T) {
	for _, policy := range []reactor.IdlePolicy{reactor.IdleEvent, reactor.IdleAdaptive, reactor.IdleBusy} {
		loop := newLoop(t, &hooks{}, &reactor.Config{Idle: policy, SpinBudget: math.MaxInt64})
		fired := false
		loop.After(time.Millisecond, func() { fired = true })
		n, err := loop.RunOnce(math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.True(t, fired)
	}
}

// TestTimeoutsAboveTheLimitOfCM checks that Dial and Config refuse a timeout that
// package cm would refuse.
func TestTimeoutsAboveTheLimitOfCM(t *testing.T) {
	var refused *verbs.ParamError
	loop := newLoop(t, &hooks{}, &reactor.Config{ConnectTimeout: cm.MaxTimeout})
	err := loop.Dial(loopback, &reactor.DialOptions{Timeout: cm.MaxTimeout})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "port", refused.Field, "the timeout is not too long")
	server := newLoop(t, &hooks{}, nil)
	err = loop.Dial(listen(t, server.Engine()), &reactor.DialOptions{Timeout: cm.MaxTimeout + 1})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, int64(cm.MaxTimeout), refused.Limit)
	_, err = reactor.NewLoop(openSoft(t, 1), &hooks{}, &reactor.Config{ConnectTimeout: cm.MaxTimeout + 1})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "ConnectTimeout", refused.Field)
}
