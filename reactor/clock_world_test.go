//go:build linux

package reactor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

func TestTimers(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var fired []time.Duration
		l := w.Host("host").Process("process").Start(&hooks{}, quiet(nil)).Loop(0)
		begin := w.Now()
		var moved *reactor.Timer
		w.On(l, func() {
			fire := func() { fired = append(fired, w.Now()-begin) }
			stopped := l.After(0, fire)
			l.After(2*time.Minute, fire)
			moved = l.After(time.Hour, fire)
			require.True(t, stopped.Stop())
			require.False(t, stopped.Stop())
			moved.Reset(time.Minute)
		})
		w.For(10 * time.Minute)
		require.Len(t, fired, 2)
		requireTook(t, time.Minute, fired[0])
		requireTook(t, 2*time.Minute, fired[1])
		w.On(l, func() { require.False(t, moved.Stop()) })
	})
}

// TestSlowCallbacks checks that callbacks are measured if Config.Limits.SlowCallback is set.
func TestSlowCallbacks(t *testing.T) {
	const slow = time.Second
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var log logged
		e := w.Host("host").Process("process").Start(&hooks{}, log.config(reactor.Config{Limits: reactor.Limits{SlowCallback: slow / 2}}))
		l := e.Loop(0)
		w.On(l, func() {
			l.SetTurnFunc(func() bool {
				l.SetTurnFunc(nil)
				w.For(slow)
				return true
			})
		})
		shutdown(t, e)
		stats := e.Stats()
		require.EqualValues(t, 1, stats.SlowCallbacks)
		requireTook(t, slow, stats.LongestCallback)
		requireTook(t, slow, stats.LongestTurn)
		requireTook(t, slow, stats.Busy)
	})
}

// TestSafetyTimeout checks that no sleep is longer than the safety timeout.
func TestSafetyTimeout(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		l := w.Host("host").Process("process").NewLoop(&hooks{}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: time.Second}})
		_, err := l.RunOnce(4500 * time.Millisecond)
		require.NoError(t, err)
		requireTook(t, 4500*time.Millisecond, w.Now())
		require.EqualValues(t, 4, l.Stats().WakesSafety)
		require.Zero(t, l.Stats().Rescues)
	})
}

// TestLongTimesDoNotOverflow checks that a timer, an idle timeout and a timeout
// with the longest time do not fire.
func TestLongTimesDoNotOverflow(t *testing.T) {
	cfg := &reactor.Config{Limits: reactor.Limits{DrainTimeout: math.MaxInt64, DecisionTimeout: math.MaxInt64}}
	inWorld(t, &hooks{}, &hooks{}, cfg, func(t *testing.T, p *worldPair) {
		fired := false
		p.do(func() {
			p.client.After(math.MaxInt64, func() { fired = true })
			p.dialed.SetIdleTimeout(math.MaxInt64)
		})
		p.On(p.server, func() { p.accepted.SetTimeout(math.MaxInt64) })
		p.For(time.Minute)
		require.False(t, fired)
		require.Equal(t, reactor.StateOpen, p.dialed.State())
		require.Equal(t, reactor.StateOpen, p.accepted.State())
	})
}
