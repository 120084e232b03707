//go:build linux

package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// sinceThen returns what l has measured since an earlier call of Latency.
func sinceThen(l *reactor.Loop, earlier reactor.Latency) reactor.Latency {
	return l.Latency().Sub(earlier)
}

// TestLatency checks what a loop measures of messages that arrive while its process is stopped,
// and of their callbacks, which are slow: later messages wait for them. On the wire path the
// time in the socket counts, too, although the connection has no Message.Time.
func TestLatency(t *testing.T) {
	const slow, stopped, messages = 5 * time.Millisecond, 200 * time.Millisecond, 4
	for name, k := range map[string]pauseCase{"local": {}, "wire": {wire: true}} {
		t.Run(name, func(t *testing.T) {
			received := 0
			var handler *hooks
			var world *reactortest.World
			handler = &hooks{message: func(c *reactor.Conn, m reactor.Message) {
				require.Zero(t, m.Time())
				if received++; received > 1 {
					world.For(slow)
				} else {
					require.NoError(t, c.Send(nil, nil))
				}
			}}
			k.run(t, &hooks{}, handler, &reactor.Config{LatencyEvery: 1}, func(t *testing.T, p *pausePair) {
				world = p.World
				send := func() { require.NoError(t, p.dialed.Send(make([]byte, 64), nil)) }
				p.onClient(send)
				p.For(time.Second) // The acknowledgement advertises receive buffers.
				dialing := p.client.Latency()
				require.EqualValues(t, 1, dialing.Arrival.Count())
				l := p.server.Loop(0)
				before := l.Latency()
				require.Positive(t, before.Callback.Count(), "OnOpen")
				p.serverProcess.Stop()
				p.onClient(func() {
					for range messages {
						send()
					}
				})
				p.For(stopped)
				p.serverProcess.Continue()
				p.Until(testTimeout, func() bool { return received == 1+messages })
				p.For(10 * slow)

				wait := time.Duration(0)
				if k.wire {
					wait = stopped
				}
				measured := sinceThen(l, before)
				require.EqualValues(t, messages, measured.Arrival.Count())
				requireTook(t, messages*wait+(0+1+2+3)*slow, measured.Arrival.Sum())
				requireTook(t, wait+(messages-1)*slow, measured.Arrival.Max())
				require.EqualValues(t, messages, measured.Callback.Count())
				requireTook(t, messages*slow, measured.Callback.Sum())
				requireTook(t, messages*slow, measured.Turn.Sum())
				requireTook(t, messages*slow, p.server.Latency().Turn.Max())
				require.Positive(t, measured.Turn.Count())
				require.Less(t, measured.Turn.Count(), uint64(messages+4), "turns without work do not count")
			})
		})
	}
}

// TestLatencyOfHeldMessages checks that a message that the application lets wait does not count.
func TestLatencyOfHeldMessages(t *testing.T) {
	received := 0
	server := &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}
	pauseCases["local, no ability"].run(t, &hooks{}, server, &reactor.Config{LatencyEvery: 1}, func(t *testing.T, p *pausePair) {
		p.onServer(func() { require.NoError(t, p.accepted.PauseRecv()) })
		before := p.server.Latency()
		p.onClient(func() { require.NoError(t, p.dialed.Send(make([]byte, 64), nil)) })
		p.For(time.Second)
		p.onServer(func() { p.accepted.ResumeRecv() })
		p.Until(testTimeout, func() bool { return received == 1 })
		measured := sinceThen(p.server.Loop(0), before)
		require.Zero(t, measured.Arrival.Count())
		require.Positive(t, measured.Callback.Count())
	})
}

// TestOversleep checks that a loop measures how late it wakes up for a timer, and that a sleep
// that ends early does not count.
func TestOversleep(t *testing.T) {
	const sleep, late = time.Second, 500 * time.Millisecond
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		process := w.Host("host").Process("process")
		l := process.Start(&hooks{}, quiet(&reactor.Config{LatencyEvery: 1 << 20})).Loop(0)
		w.On(l, func() { l.After(sleep, func() {}) })
		process.Stop()
		w.For(sleep + late)
		process.Continue()
		w.For(time.Second)
		w.On(l, func() { l.After(sleep, func() {}) })
		w.For(2 * sleep)
		h := l.Latency().Oversleep
		require.EqualValues(t, 2, h.Count(), "the sleeps that Post has ended do not count")
		requireTook(t, late, h.Max())
		requireTook(t, late, h.Sum())
	})
}

// TestLatencyIsOff checks that a loop measures nothing by default.
func TestLatencyIsOff(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, nil, func(t *testing.T, p *worldPair) {
		p.do(func() { require.NoError(t, p.dialed.Send(make([]byte, 64), nil)) })
		p.For(time.Second)
		require.NotZero(t, p.server.Stats().Messages)
		require.Equal(t, reactor.Latency{}, p.server.Latency())
	})
}
