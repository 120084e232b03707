//go:build linux

package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A busyProvider has event channels that report events of their last ID without end.
type busyProvider struct {
	cm.Provider
	busy bool
}

func (p *busyProvider) OpenChannel() (cm.TransportChannel, error) {
	ch, err := p.Provider.OpenChannel()
	return &busyChannel{TransportChannel: ch, p: p}, err
}

type busyChannel struct {
	cm.TransportChannel
	p  *busyProvider
	id cm.TransportID
}

func (c *busyChannel) NewID(ps cm.PortSpace) (id cm.TransportID, err error) {
	c.id, err = c.TransportChannel.NewID(ps)
	return c.id, err
}

func (c *busyChannel) Next(ev *cm.TransportEvent) (bool, error) {
	if !c.p.busy || c.id == nil {
		return c.TransportChannel.Next(ev)
	}
	*ev = cm.TransportEvent{Type: cm.AddrChange, ID: c.id}
	return true, nil
}

// TestEventsDoNotProlongOpening checks that a dial times out although events arrive
// without end. The timer of the dial fires only once in a turn, so the dial does not fail
// in the first turn after its time limit.
func TestEventsDoNotProlongOpening(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var failed error
		h := w.Host("host")
		server := h.Process("server").NewLoop(&hooks{}, nil)
		_, err := server.Engine().Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		p := &busyProvider{Provider: h.Process("client").Open(nil)}
		l, err := reactor.NewLoop(p, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed = err }},
			&reactor.Config{Limits: reactor.Limits{ConnectTimeout: time.Hour}})
		require.NoError(t, err)
		require.NoError(t, l.Engine().Dial(h.AddrPort(1), nil))
		drive(t, func() bool { return reactor.OpeningConns(l) == 1 }, l)
		p.busy = true
		inTurn(t, l, func() {
			time.Sleep(2 * time.Hour)
			for range 4 {
				l.After(0, func() {}) // l.After makes the loop read its clock
			}
		})
		require.NoError(t, failed)
		for range 20 {
			time.Sleep(time.Millisecond)
			_, err := l.RunOnce(0)
			require.NoError(t, err)
		}
		require.ErrorIs(t, failed, cm.ErrTimedOut)
		p.busy = false
		require.NoError(t, l.Close())
	})
}

// unanswered makes a client dial a server that keeps the request, and calls fn. The
// parameter failed points to the error of OnDialError.
func unanswered(t *testing.T, cfg *reactor.Config, fn func(t *testing.T, p *worldPair, req *reactor.ConnRequest, failed *error)) {
	t.Helper()
	client, server := &hooks{}, &hooks{}
	inWorld(t, client, server, cfg, func(t *testing.T, p *worldPair) {
		p.dialed = nil
		var failed error
		var kept *reactor.ConnRequest
		client.dialError = func(_ *reactor.DialOptions, err error) { failed = err }
		server.request = func(req *reactor.ConnRequest) { kept = req }
		require.NoError(t, p.client.Engine().Dial(p.host.AddrPort(1), nil))
		p.Until(time.Second, func() bool { return kept != nil })
		fn(t, p, kept, &failed)
	})
}

func TestDialTimesOut(t *testing.T) {
	cfg := &reactor.Config{Limits: reactor.Limits{ConnectTimeout: 5 * time.Second}}
	unanswered(t, cfg, func(t *testing.T, p *worldPair, _ *reactor.ConnRequest, failed *error) {
		begin := p.Now()
		p.Until(time.Hour, func() bool { return *failed != nil })
		requireTook(t, cfg.Limits.ConnectTimeout, p.Now()-begin)
		require.ErrorIs(t, *failed, cm.ErrTimedOut)
		require.EqualError(t, *failed, "dial "+p.host.AddrPort(1).String()+": timed out after 5s")
	})
}

func TestRequestExpires(t *testing.T) {
	cfg := &reactor.Config{Limits: reactor.Limits{DecisionTimeout: 10 * time.Second}}
	unanswered(t, cfg, func(t *testing.T, p *worldPair, req *reactor.ConnRequest, failed *error) {
		begin := p.Now()
		p.Until(time.Minute, func() bool { return *failed != nil })
		requireTook(t, cfg.Limits.DecisionTimeout, p.Now()-begin)
		require.ErrorIs(t, *failed, cm.ErrRefused)
		require.ErrorIs(t, req.Accept(nil), reactor.ErrExpired)
		require.EqualValues(t, 1, p.server.Stats().Expired)
	})
}

// TestExpiryAfterPeerClosed checks that a request can expire after its client has closed.
// The expiry must not be an error of the loop.
func TestExpiryAfterPeerClosed(t *testing.T) {
	cfg := &reactor.Config{Limits: reactor.Limits{DecisionTimeout: shortTime}}
	unanswered(t, cfg, func(t *testing.T, p *worldPair, req *reactor.ConnRequest, _ *error) {
		p.delay(p.server, func() {})
		p.For(time.Second)
		p.clientProcess.Kill()
		p.For(delayTime)
		require.EqualValues(t, 1, p.server.Stats().Expired)
		require.ErrorIs(t, req.Accept(nil), reactor.ErrExpired)
	})
}

// TestOpenedDuringDelay checks that a connection opens if the peer has accepted it in
// time, but the dialing loop sees this late.
func TestOpenedDuringDelay(t *testing.T) {
	cfg := &reactor.Config{Limits: reactor.Limits{ConnectTimeout: shortTime}}
	unanswered(t, cfg, func(t *testing.T, p *worldPair, req *reactor.ConnRequest, _ *error) {
		p.delay(p.client, func() {})
		p.For(time.Second)
		require.NoError(t, req.Accept(nil))
		p.For(delayTime)
		require.NotNil(t, p.dialed)
	})
}

// TestRequestWithdrawn checks the error of an answer to a request that a newer request
// has replaced. The server allows one half-open request only.
func TestRequestWithdrawn(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var kept []*reactor.ConnRequest
		h := w.Host("server")
		server, err := reactor.New(h.Process("server").Open(&soft.Config{MaxHalfOpen: 1}),
			&hooks{request: func(req *reactor.ConnRequest) { kept = append(kept, req) }}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { shutdown(t, server) })
		require.NoError(t, server.Start())
		_, err = server.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		for _, name := range []string{"first", "second"} {
			require.NoError(t, w.Host(name).Process("client").Start(&hooks{}, nil).Dial(h.AddrPort(1), nil))
			before := len(kept)
			w.Until(time.Second, func() bool { return len(kept) > before })
		}
		require.ErrorIs(t, kept[0].Accept(nil), verbs.ErrPeerGone)
		require.ErrorIs(t, kept[0].Reject(nil), verbs.ErrPeerGone)
		require.Equal(t, 1, reactor.PendingRequests(server))
	})
}

// TestRequestDuringShutdown checks that a request that arrives during the shutdown is
// rejected without OnConnectRequest.
func TestRequestDuringShutdown(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		h := w.Host("host")
		server, err := reactor.New(h.Process("server").Open(nil), &hooks{
			request: func(*reactor.ConnRequest) { t.Error("OnConnectRequest was called") },
		}, nil)
		require.NoError(t, err)
		_, err = server.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		var refused error
		client := h.Process("client").Start(&hooks{dialError: func(_ *reactor.DialOptions, err error) { refused = err }}, nil)
		require.NoError(t, client.Dial(h.AddrPort(1), nil))
		w.Until(time.Second, func() bool {
			fetched, err := reactor.FetchRequestDuringShutdown(server)
			require.NoError(t, err)
			return fetched
		})
		w.Until(time.Second, func() bool { return refused != nil })
		require.ErrorIs(t, refused, cm.ErrRefused)
		shutdown(t, server)
	})
}
