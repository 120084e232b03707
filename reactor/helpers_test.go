package reactor_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// testTimeout is how long a test waits for an event before it fails.
const testTimeout = 30 * time.Second

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// hooks is a Handler that calls the functions in its fields. A nil field acts like
// BaseHandler.
type hooks struct {
	reactor.BaseHandler
	boot        func(*reactor.Loop) error // Config.OnBoot; see configOf
	shutdown    func(*reactor.Loop)       // Config.OnShutdown
	request     func(*reactor.ConnRequest)
	acceptError func(*reactor.ConnRequest, error)
	listenError func(*reactor.Listener, error)
	open        func(*reactor.Conn)
	message     func(*reactor.Conn, reactor.Message)
	completion  func(*reactor.Conn, reactor.Op, error)
	writable    func(*reactor.Conn)
	close       func(*reactor.Conn, error)
	dialError   func(*reactor.DialOptions, error)
}

// configOf returns the configuration for an engine with the Handler h. If h is a *hooks, it has
// the functions boot and shutdown.
func configOf(h reactor.Handler, cfg *reactor.Config) *reactor.Config {
	var c reactor.Config
	if cfg != nil {
		c = *cfg
	}
	if h, ok := h.(*hooks); ok {
		c.OnBoot, c.OnShutdown = h.boot, h.shutdown
	}
	return &c
}

func (h *hooks) OnConnectRequest(req *reactor.ConnRequest) {
	if h.request == nil {
		h.BaseHandler.OnConnectRequest(req)
		return
	}
	h.request(req)
}

func (h *hooks) OnAcceptError(req *reactor.ConnRequest, err error) {
	if h.acceptError != nil {
		h.acceptError(req, err)
	}
}

func (h *hooks) OnListenError(ln *reactor.Listener, err error) {
	if h.listenError != nil {
		h.listenError(ln, err)
	}
}

func (h *hooks) OnOpen(c *reactor.Conn) {
	if h.open != nil {
		h.open(c)
	}
}

func (h *hooks) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if h.message != nil {
		h.message(c, msg)
	}
}

func (h *hooks) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	if h.completion != nil {
		h.completion(c, op, err)
	}
}

func (h *hooks) OnWritable(c *reactor.Conn) {
	if h.writable != nil {
		h.writable(c)
	}
}

func (h *hooks) OnClose(c *reactor.Conn, err error) {
	if h.close != nil {
		h.close(c, err)
	}
}

func (h *hooks) OnDialError(_ *reactor.Loop, _ netip.AddrPort, d *reactor.DialOptions, err error) {
	if h.dialError != nil {
		h.dialError(d, err)
	}
}

// echo returns a function for hooks.message that sends each message back.
func echo(t testing.TB) func(*reactor.Conn, reactor.Message) {
	return func(c *reactor.Conn, msg reactor.Message) {
		if err := c.Send(msg.Data(), nil); err != nil {
			t.Errorf("echo: %v", err)
		}
	}
}

func openSoft(t testing.TB) *soft.Provider {
	p, err := soft.Open(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// start starts an engine with its own device. The end of the test shuts it down.
func start(t testing.TB, h reactor.Handler, cfg *reactor.Config) *reactor.Engine {
	e, err := reactor.New(openSoft(t), h, configOf(h, cfg))
	require.NoError(t, err)
	t.Cleanup(func() { shutdown(t, e) })
	require.NoError(t, e.Start())
	return e
}

func shutdown(t testing.TB, e *reactor.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	require.NoError(t, e.Shutdown(ctx))
}

func listen(t testing.TB, e *reactor.Engine) netip.AddrPort {
	ln, err := e.Listen(loopback, nil)
	require.NoError(t, err)
	return ln.Addr()
}

// newLoop makes an embedded loop, which the test runs with RunOnce.
func newLoop(t testing.TB, h reactor.Handler, cfg *reactor.Config) *reactor.Loop {
	l, err := reactor.NewLoop(openSoft(t), h, configOf(h, cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// wireLoop is newLoop for a device with only the wire path.
func wireLoop(t testing.TB, h reactor.Handler, port uint16, cfg *reactor.Config) *reactor.Loop {
	return pathLoop(t, soft.PathWire, port, h, cfg)
}

// pathLoop is newLoop for a device with only one path.
func pathLoop(t testing.TB, path soft.Path, wirePort uint16, h reactor.Handler, cfg *reactor.Config) *reactor.Loop {
	p, err := soft.Open(&soft.Config{Path: path, WirePort: wirePort})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	l, err := reactor.NewLoop(p, h, configOf(h, cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// drive calls RunOnce of each loop in turn until cond() returns true.
func drive(t testing.TB, cond func() bool, loops ...*reactor.Loop) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	const manyTurns = 1 << 26 // In virtual time the deadline never comes.
	for turn := 0; !cond(); turn++ {
		if turn%1024 == 0 && time.Now().After(deadline) || turn == manyTurns {
			require.FailNow(t, "the condition did not become true in time")
		}
		for _, l := range loops {
			_, err := l.RunOnce(0)
			require.NoError(t, err)
		}
	}
}

// A pair is two embedded loops with a connection between them.
type pair struct {
	client, server               *reactor.Loop
	dialed, accepted             *reactor.Conn
	dialCloseErr, acceptCloseErr error          // error that OnClose got on each side
	dialCloses, acceptCloses     int            // number of calls of OnClose on each side
	localAddr                    netip.AddrPort // local address to use in further calls of Dial
}

func (p *pair) drive(t testing.TB, cond func() bool) {
	t.Helper()
	drive(t, cond, p.client, p.server)
}

// closed runs both loops until OnClose was called on both sides. A second call of OnClose
// fails the test.
func (p *pair) closed(t testing.TB) {
	t.Helper()
	p.drive(t, func() bool { return p.dialCloses > 0 && p.acceptCloses > 0 })
	require.Equal(t, 1, p.dialCloses)
	require.Equal(t, 1, p.acceptCloses)
}

// connect makes two loops and a connection between them. On each side it calls watch().
func connect(t testing.TB, client, server *hooks, cfg *reactor.Config) *pair {
	t.Helper()
	p := &pair{}
	watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
	watch(server, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	client.dialError = func(_ *reactor.DialOptions, err error) { t.Errorf("dial: %v", err) }
	server.acceptError = func(_ *reactor.ConnRequest, err error) { t.Errorf("accept: %v", err) }
	p.server = newLoop(t, server, cfg)
	p.client = newLoop(t, client, cfg)
	ln, err := p.server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, p.client.Engine().Dial(ln.Addr(), nil))
	p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
	return p
}

// watch extends two callbacks of h. OnOpen also stores the connection in *conn. OnClose
// also stores its error in *closeErr and adds 1 to *closes.
func watch(h *hooks, conn **reactor.Conn, closeErr *error, closes *int) {
	open, closed := h.open, h.close
	h.open = func(c *reactor.Conn) {
		*conn = c
		if open != nil {
			open(c)
		}
	}
	h.close = func(c *reactor.Conn, err error) {
		*closeErr = err
		*closes++
		if closed != nil {
			closed(c, err)
		}
	}
}

// receive returns the next value from ch, or fails the test after testTimeout.
func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(testTimeout):
		require.FailNow(t, "no value in time")
		panic("unreachable")
	}
}

// alloc allocates a region of the engine of c.
func alloc(t testing.TB, c *reactor.Conn, size int, access verbs.Access) *reactor.Region {
	t.Helper()
	r, err := c.Loop().Engine().Alloc(size, access)
	require.NoError(t, err)
	return r
}

// remoteOf returns what the peer of c needs to use the region r.
func remoteOf(t testing.TB, c *reactor.Conn, r *reactor.Region) reactor.Remote {
	t.Helper()
	at, err := r.Remote(c.Info().Device, 0, len(r.Bytes()))
	require.NoError(t, err)
	return at
}
