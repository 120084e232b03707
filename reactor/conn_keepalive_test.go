package reactor_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// wireLoop makes a loop on a device with only the wire path. The test calls RunOnce.
func wireLoop(t testing.TB, h reactor.Handler, port uint16) *reactor.Loop {
	// The ACK timeout is short, so that an absent peer soon uses up the retries. It is
	// rounded up to 4.096 µs * 2^13 = 33.6 ms.
	return wireLoopWith(t, h, port, &reactor.Config{AckTimeout: 33 * time.Millisecond})
}

// wireLoopWith is wireLoop with a Config.
func wireLoopWith(t testing.TB, h reactor.Handler, port uint16, cfg *reactor.Config) *reactor.Loop {
	p, err := soft.Open(&soft.Config{Vectors: 1, Path: soft.PathWire, WirePort: port})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	l, err := reactor.NewLoop(p, h, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// TestKeepaliveOnWirePath checks that the default keepalive time ends a connection whose
// peer on the wire path stops answering.
func TestKeepaliveOnWirePath(t *testing.T) {
	port := freeport.UDP(t)
	var accepted *reactor.Conn
	var end error
	closes := 0
	h := &hooks{}
	watch(h, &accepted, &end, &closes)
	server, client := wireLoop(t, h, port), wireLoop(t, &hooks{}, port)
	ln, err := server.Engine().Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	require.NoError(t, client.Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.0.0.2:0")}))
	drive(t, func() bool { return accepted != nil }, client, server)

	// The client's loop does not run any more.
	runLate(t, server, 20*time.Second, func() {})
	require.Zero(t, probes(t, server), "20 s are less than Config.Keepalive")
	runLate(t, server, 20*time.Second, func() {})
	drive(t, func() bool { return closes > 0 }, server)
	require.EqualValues(t, 1, probes(t, server))
	require.ErrorIs(t, end, reactor.ErrKeepalive)
	var failed *verbs.CompletionError
	require.ErrorAs(t, end, &failed)
	require.Equal(t, verbs.StatusRetryExcErr, failed.Status)
}

// TestKeepaliveWithUnconfirmedSends checks that an unanswered probe does not end a
// connection whose sends are unconfirmed.
func TestKeepaliveWithUnconfirmedSends(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{MaxInFlight: 4, Keepalive: time.Hour})
	sent := uint64(0)
	for ; p.dialed.Send([]byte("x")) == nil; sent++ {
	}
	for range 5 {
		// Only the client's loop runs, so the server confirms nothing.
		runLate(t, p.client, 2*time.Hour, func() {})
	}
	require.EqualValues(t, 1, probes(t, p.client))
	require.Equal(t, reactor.StateOpen, p.dialed.State())
	p.drive(t, func() bool { return p.accepted.Stats().Messages == sent })
	require.Equal(t, reactor.StateOpen, p.dialed.State())
}

// TestKeepaliveNotAnsweredOnBusyQueue checks that an unanswered probe ends its
// connection while another connection keeps the CQ busy.
func TestKeepaliveNotAnsweredOnBusyQueue(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Keepalive: time.Hour, CompletionBudget: 1})
	var busy *reactor.Conn
	other := newLoop(t, &hooks{open: func(c *reactor.Conn) { busy = c }}, nil)
	ln, err := other.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, p.client.Dial(ln.Addr(), nil))
	drive(t, func() bool { return busy != nil }, p.client, other)

	// runLate makes the loop send a probe on both connections.
	runLate(t, p.client, 2*time.Hour, func() {})
	answered := func() bool { return reactor.OutstandingProbes(p.client) == 1 }
	// Only one of the two peers answers its probe, because the loop p.server does not
	// run.
	drive(t, answered, p.client, other)
	runLate(t, p.client, 2*time.Hour, func() {
		for range 10 {
			require.NoError(t, busy.Send(nil))
		}
		busy.Flush()
	})
	for range 100 {
		_, err := p.client.RunOnce(0)
		require.NoError(t, err)
	}
	require.Equal(t, 1, p.dialCloses)
	require.Equal(t, reactor.ErrKeepalive, p.dialCloseErr)
	require.Equal(t, 1, opened(p.client), "the other connection stays open")
}

// TestKeepalivesAreBatched checks that an idle loop probes many connections in one turn,
// at most ProbeBudget of them.
func TestKeepalivesAreBatched(t *testing.T) {
	const conns = 2*reactor.ProbeBudget + 10
	server := newLoop(t, &hooks{}, nil)
	client := newLoop(t, &hooks{}, &reactor.Config{Keepalive: 16 * time.Hour, MaxInFlight: 2})
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	for i := range conns {
		require.NoError(t, client.Dial(ln.Addr(), nil))
		drive(t, func() bool { return opened(client) == i+1 }, client, server)
		reactor.AdvanceClock(client, time.Minute)
	}
	times := make(map[time.Duration]int)
	for _, c := range reactor.ConnsOf(client) {
		times[reactor.NextKeepaliveTime(c)]++
	}
	require.LessOrEqual(t, len(times), 4, "%d connections within three hours", conns)

	reactor.AdvanceClock(client, 24*time.Hour)
	// The server's loop does not run, so all probes stay outstanding.
	for before := uint32(0); before < conns; {
		_, err := client.RunOnce(-1)
		require.NoError(t, err)
		now := reactor.OutstandingProbes(client)
		require.LessOrEqual(t, now-before, uint32(reactor.ProbeBudget))
		before = now
	}
}

func opened(l *reactor.Loop) (n int) {
	for _, c := range reactor.ConnsOf(l) {
		if c.State() == reactor.StateOpen {
			n++
		}
	}
	return n
}
