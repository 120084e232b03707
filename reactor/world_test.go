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

// A worldPair is two engines of a World with a connection between them, on the local path.
// Each engine has one loop. What the tests do with a connection they do on its loop.
type worldPair struct {
	pair
	*reactortest.World
	host                         *reactortest.Host
	clientProcess, serverProcess *reactortest.Process
}

// quiet returns a Config with which an idle loop sleeps for long: it sends no probes, unless
// cfg says so, and does not wake up to look for lost events.
func quiet(cfg *reactor.Config) *reactor.Config {
	c := reactor.Config{}
	if cfg != nil {
		c = *cfg
	}
	c.Limits.SafetyTimeout = math.MaxInt64
	if c.Transport.Keepalive == 0 {
		c.Transport.Keepalive = -1
	}
	return &c
}

// inWorld makes a worldPair with the configuration quiet(cfg), and calls fn.
func inWorld(t *testing.T, client, server interface {
	reactor.Handler
	own() *hooks
}, cfg *reactor.Config, fn func(t *testing.T, p *worldPair)) {
	t.Helper()
	cfg = quiet(cfg)
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		h := w.Host("host")
		p := &worldPair{World: w, host: h, clientProcess: h.Process("client"), serverProcess: h.Process("server")}
		watch(client.own(), &p.dialed, &p.dialCloseErr, &p.dialCloses)
		watch(server.own(), &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
		p.client = p.clientProcess.Start(client, cfg).Loop(0)
		p.server = p.serverProcess.Start(server, cfg).Loop(0)
		_, err := p.server.Engine().Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		require.NoError(t, p.client.Engine().Dial(h.AddrPort(1), nil))
		p.Until(testTimeout, func() bool { return p.dialed != nil && p.accepted != nil })
		fn(t, p)
	})
}

// own returns the hooks themselves, also those that another handler embeds.
func (h *hooks) own() *hooks { return h }

// do calls fn on the client's loop.
func (p *worldPair) do(fn func()) { p.On(p.client, fn) }

// A test may delay a loop for delayTime. With the default configuration, the peer's
// transport gives up after twice this time. So limits that are to pass meanwhile are shortTime.
const (
	delayTime = 4 * time.Second
	shortTime = 3 * time.Second
)

// delay makes l call fn after delayTime, in which other loops run. The loop l reads its
// clock before it sees what has happened meanwhile.
func (p *worldPair) delay(l *reactor.Loop, fn func()) {
	_ = l.Post(func() {
		p.For(delayTime)
		fn()
		l.After(0, func() {}) // After reads the clock.
	})
}

// wantClose lets time pass until the client's connection has ended, and checks how often
// and with which error OnClose was called. It returns how long that took.
func (p *worldPair) wantClose(t *testing.T, want error) time.Duration {
	t.Helper()
	begin := p.Now()
	p.Until(10*time.Minute, func() bool { return p.dialCloses > 0 })
	require.ErrorIs(t, p.dialCloseErr, want)
	took := p.Now() - begin
	p.For(time.Millisecond)
	require.Equal(t, 1, p.dialCloses)
	return took
}
