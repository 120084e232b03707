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
	loop := newLoop(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{ConnectTimeout: cm.MaxTimeout}})
	err := loop.Engine().Dial(loopback, &reactor.DialOptions{Timeout: cm.MaxTimeout})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "port", refused.Field, "the timeout is not too long")
	server := newLoop(t, &hooks{}, nil)
	err = loop.Engine().Dial(listen(t, server.Engine()), &reactor.DialOptions{Timeout: cm.MaxTimeout + 1})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, int64(cm.MaxTimeout), refused.Limit)
	_, err = reactor.NewLoop(openSoft(t), &hooks{}, &reactor.Config{Limits: reactor.Limits{ConnectTimeout: cm.MaxTimeout + 1}})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "ConnectTimeout", refused.Field)
}
