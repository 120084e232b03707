//go:build linux

package reactor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestKeepaliveOnWirePath checks that the default keepalive time ends a connection whose
// peer on the wire path stops answering.
func TestKeepaliveOnWirePath(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		client, server := w.Host("client"), w.Host("server")
		_, err := server.Process("server").Start(&hooks{}, nil).Listen(server.AddrPort(1), nil)
		require.NoError(t, err)
		e := client.Process("client").Start(&hooks{}, &reactor.Config{Transport: reactor.Transport{RetryCount: -1}, Limits: reactor.Limits{SafetyTimeout: math.MaxInt64}})
		c := w.Dial(e, server.AddrPort(1), nil)
		server.Stop()
		w.For(29 * time.Second)
		require.Zero(t, e.Stats().Keepalives)
		var failed *verbs.CompletionError
		require.ErrorAs(t, c.WantClose(reactor.ErrKeepalive), &failed)
		require.Equal(t, verbs.StatusRetryExcErr, failed.Status)
		require.EqualValues(t, 1, e.Stats().Keepalives)
		require.Less(t, w.Now(), time.Minute)
	})
}

// TestKeepaliveWithUnconfirmedSends checks that an unanswered probe does not end a
// connection whose sends are unconfirmed.
func TestKeepaliveWithUnconfirmedSends(t *testing.T) {
	cfg := &reactor.Config{MaxInFlight: 4, Transport: reactor.Transport{Keepalive: time.Second}}
	inWorld(t, &hooks{}, &hooks{}, cfg, func(t *testing.T, p *worldPair) {
		p.serverProcess.Stop()
		sent := uint64(0)
		p.do(func() {
			for ; p.dialed.Send([]byte("x"), nil) == nil; sent++ {
			}
		})
		p.For(5 * time.Second)
		require.EqualValues(t, 1, p.client.Stats().Keepalives)
		p.serverProcess.Continue()
		p.For(time.Second)
		require.Equal(t, sent, p.accepted.Stats().Messages)
		require.Equal(t, reactor.StateOpen, p.dialed.State())
	})
}

// TestKeepaliveNotAnsweredOnBusyQueue checks that an unanswered probe ends its
// connection while another connection keeps the CQ busy.
func TestKeepaliveNotAnsweredOnBusyQueue(t *testing.T) {
	client := &hooks{}
	const answerTime = 20 * time.Millisecond
	cfg := &reactor.Config{Transport: reactor.Transport{Keepalive: shortTime, AckTimeout: delayTime}, PeerTimeout: answerTime, Limits: reactor.Limits{CompletionBudget: 1}}
	inWorld(t, client, &hooks{}, cfg, func(t *testing.T, p *worldPair) {
		var busy *reactor.Conn
		client.open = func(c *reactor.Conn) { busy = c }
		client.message = func(c *reactor.Conn, m reactor.Message) {
			if p.dialCloses == 0 {
				require.NoError(t, c.Send(m.Data(), nil))
			}
		}
		_, err := p.host.Process("other").Start(&hooks{message: echo(t)}, nil).Listen(p.host.AddrPort(2), nil)
		require.NoError(t, err)
		require.NoError(t, p.client.Engine().Dial(p.host.AddrPort(2), nil))
		p.serverProcess.Stop()
		p.Until(delayTime, func() bool { return p.client.Stats().Keepalives == 2 })
		p.delay(p.client, func() {
			for range 10 {
				require.NoError(t, busy.Send(nil, nil))
			}
		})
		p.For(delayTime + answerTime)
		require.Equal(t, reactor.ErrKeepalive, p.dialCloseErr)
		require.Equal(t, reactor.StateOpen, busy.State())
		require.NotZero(t, busy.Stats().Messages)
	})
}

// TestKeepalivesAreBatched checks that an idle loop probes many connections in one turn,
// at most ProbeBudget of them.
func TestKeepalivesAreBatched(t *testing.T) {
	const each, conns = 14, 70
	require.Greater(t, conns, reactor.ProbeBudget)
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		h, opened := w.Host("host"), 0
		server := h.Process("server").NewLoop(&hooks{}, nil)
		client := h.Process("client").NewLoop(&hooks{open: func(*reactor.Conn) { opened++ }},
			quiet(&reactor.Config{Transport: reactor.Transport{Keepalive: 16 * time.Hour}, MaxInFlight: 2}))
		_, err := server.Engine().Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		for n := 0; n < conns; time.Sleep(30 * time.Minute) {
			for range each {
				require.NoError(t, client.Engine().Dial(h.AddrPort(1), nil))
			}
			n += each
			drive(t, func() bool { return opened == n }, client, server)
		}
		times := make(map[time.Duration]int)
		for _, c := range reactor.ConnsOf(client) {
			times[reactor.NextKeepaliveTime(c)]++
		}
		require.LessOrEqual(t, len(times), 4, "%d connections within three hours", conns)

		time.Sleep(24 * time.Hour)
		// The server's loop does not run, so all probes stay outstanding.
		for before := uint32(0); before < conns; {
			_, err := client.RunOnce(-1)
			require.NoError(t, err)
			now := reactor.OutstandingProbes(client)
			require.LessOrEqual(t, now-before, uint32(reactor.ProbeBudget))
			before = now
		}
	})
}
