//go:build linux

package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// requireTook checks that something took the given time, give or take a millisecond.
func requireTook(t *testing.T, want, took time.Duration) {
	t.Helper()
	require.InDelta(t, want, took, float64(time.Millisecond))
}

// TestTimeLimits checks when timeouts and idle timeouts end connections, each on a
// connection of its own.
func TestTimeLimits(t *testing.T) {
	type end struct {
		err  error
		took time.Duration
	}
	tests := []struct {
		name string
		set  func(*reactor.Conn)
		want end // no error means that the connection stays open
	}{
		{"timeout", func(c *reactor.Conn) { c.SetTimeout(time.Hour); c.SetTimeout(9 * time.Second) }, end{reactor.ErrTimeout, 9 * time.Second}},
		{"no timeout", func(c *reactor.Conn) { c.SetTimeout(time.Second); c.SetTimeout(0) }, end{}},
		{"idle", func(c *reactor.Conn) { c.SetIdleTimeout(time.Hour); c.SetIdleTimeout(8 * time.Second) }, end{reactor.ErrIdle, 8 * time.Second}},
		{"no idle timeout", func(c *reactor.Conn) { c.SetIdleTimeout(time.Second); c.SetIdleTimeout(-1) }, end{}},
	}
	ends := make(map[*reactor.Conn]end)
	client := &hooks{}
	inWorld(t, client, &hooks{}, nil, func(t *testing.T, p *worldPair) {
		begin := p.Now()
		client.close = func(c *reactor.Conn, err error) { ends[c] = end{err, p.Now() - begin} }
		for range len(tests) - 1 {
			require.NoError(t, p.client.Engine().Dial(p.host.AddrPort(1), nil))
		}
		p.Until(time.Second, func() bool { return p.client.Stats().Opened == uint64(len(tests)) })
		conns := reactor.ConnsOf(p.client)
		p.do(func() {
			for i, test := range tests {
				test.set(conns[i])
			}
		})
		p.For(10 * time.Second)
		for i, test := range tests {
			require.Equal(t, test.want.err, ends[conns[i]].err, test.name)
			requireTook(t, test.want.took, ends[conns[i]].took)
		}
	})
}

// TestTimeoutAfterStop checks that messages that arrived while the process was stopped are
// handled before the timeout ends the connection, and that the handler of the last one
// can set or remove the timeout. Without messages the connection ends.
func TestTimeoutAfterStop(t *testing.T) {
	const messages = 5 // more than one turn of the loop handles
	for name, test := range map[string]struct {
		send   bool
		change func(*reactor.Conn)
		want   error
	}{
		"set":     {true, func(c *reactor.Conn) { c.SetTimeout(time.Hour) }, nil},
		"removed": {true, func(c *reactor.Conn) { c.SetTimeout(0) }, nil},
		"kept":    {true, func(*reactor.Conn) {}, reactor.ErrTimeout},
		"silence": {false, nil, reactor.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			client := &hooks{message: func(c *reactor.Conn, _ reactor.Message) {
				if c.Stats().Messages == messages {
					test.change(c)
				}
			}}
			inWorld(t, client, &hooks{}, &reactor.Config{Limits: reactor.Limits{CompletionBudget: 1}}, func(t *testing.T, p *worldPair) {
				p.do(func() { p.dialed.SetTimeout(time.Second) })
				p.clientProcess.Stop()
				if test.send {
					p.On(p.server, func() {
						for range messages {
							require.NoError(t, p.accepted.Send(nil, nil))
						}
					})
				}
				p.For(shortTime)
				p.clientProcess.Continue()
				p.For(time.Second)
				require.Equal(t, test.want, p.dialCloseErr)
				require.Equal(t, test.want != nil, p.dialCloses == 1)
				require.Equal(t, test.send, p.dialed.Stats().Messages == messages)
			})
		})
	}
}

// TestKeepalive checks that answered probes keep a connection open, even if the peer
// sends nothing, and that an unanswered probe ends it.
func TestKeepalive(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, &reactor.Config{Transport: reactor.Transport{Keepalive: shortTime}}, func(t *testing.T, p *worldPair) {
		p.For(5 * shortTime)
		require.EqualValues(t, 4, p.client.Stats().Keepalives)
		require.Zero(t, p.dialCloses)
		require.Zero(t, p.accepted.Stats().Messages)
		p.serverProcess.Stop()
		require.LessOrEqual(t, p.wantClose(t, reactor.ErrKeepalive), 2*shortTime)
	})
}

// TestIdleTimeoutCountsLateSend checks that a send after a long delay counts as
// activity, even before the loop reads its clock.
func TestIdleTimeoutCountsLateSend(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, nil, func(t *testing.T, p *worldPair) {
		p.do(func() { p.dialed.SetIdleTimeout(shortTime) })
		p.delay(p.client, func() { require.NoError(t, p.dialed.Send(nil, nil)) })
		p.For(delayTime + time.Millisecond)
		require.Zero(t, p.dialCloses)
		require.LessOrEqual(t, p.wantClose(t, reactor.ErrIdle), 2*shortTime)
	})
}

// TestIdleTimeoutCountsDelayedMessage checks that a message that arrives during a delay
// counts as activity.
func TestIdleTimeoutCountsDelayedMessage(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, nil, func(t *testing.T, p *worldPair) {
		p.do(func() { p.dialed.SetIdleTimeout(shortTime) })
		p.delay(p.client, func() {})
		p.On(p.server, func() { require.NoError(t, p.accepted.Send(nil, nil)) })
		p.For(delayTime + time.Millisecond)
		require.Equal(t, reactor.StateOpen, p.dialed.State())
		require.EqualValues(t, 1, p.dialed.Stats().Messages)
	})
}

// TestKeepaliveAnsweredDuringDelay checks that a probe may be answered while the loop is
// delayed.
func TestKeepaliveAnsweredDuringDelay(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, &reactor.Config{Transport: reactor.Transport{Keepalive: shortTime}}, func(t *testing.T, p *worldPair) {
		p.serverProcess.Stop()
		p.Until(delayTime, func() bool { return p.client.Stats().Keepalives == 1 })
		p.delay(p.client, func() {})
		p.For(time.Second)
		p.serverProcess.Continue()
		p.For(delayTime)
		require.Equal(t, reactor.StateOpen, p.dialed.State())
	})
}
