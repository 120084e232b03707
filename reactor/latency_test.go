package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestLatencySample checks that on average one turn of Config.LatencyEvery is measured, and that
// no regular work meets all or none of them.
func TestLatencySample(t *testing.T) {
	const every, turns = 8, 40_000
	l := newLoop(t, &hooks{}, &reactor.Config{LatencyEvery: every})
	require.Equal(t, every, l.Engine().LatencyEvery())
	for i := range turns {
		for range 1 + i%every/(every-1) { // in one of eight turns, a second function
			require.NoError(t, l.Post(func() {}))
		}
		_, err := l.RunOnce(0)
		require.NoError(t, err)
	}
	h := l.Latency()
	require.InEpsilon(t, turns/every, h.Turn.Count(), 0.1)
	require.InEpsilon(t, (turns+turns/every)/every, h.Callback.Count(), 0.1)
	require.InEpsilon(t, turns/every/every, h.Callback.Count()-h.Turn.Count(), 0.3, "the turns with a second function")
	require.LessOrEqual(t, h.Callback.Max(), h.Turn.Max())
}

// TestEngineLatency checks that Engine.Latency is the sum over the loops, that other goroutines
// can read it while the loops run, and that it can be read after the end.
func TestEngineLatency(t *testing.T) {
	const loops, functions = 2, 1000
	e := start(t, &hooks{}, &reactor.Config{NumLoops: loops, LatencyEvery: 1})
	for range functions {
		for i := range loops {
			require.NoError(t, e.Loop(i).Post(func() {}))
		}
		_ = e.Latency()
	}
	shutdown(t, e)
	sum := e.Latency()
	require.EqualValues(t, loops*functions, sum.Callback.Count())
	first, second := e.Loop(0).Latency(), e.Loop(1).Latency()
	first.Add(&second)
	require.Equal(t, sum, first)
	require.Greater(t, sum.Turn.Max(), time.Duration(0))
}
