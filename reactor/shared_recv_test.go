//go:build linux

package reactor_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A sharedServer is a server loop whose connections share receive buffers, and a client
// with many connections to it. No side retries after an RNR NAK, so the first one ends a
// connection.
type sharedServer struct {
	t              *testing.T
	server, client *reactor.Loop
	listener       *reactor.Listener
	dialed         []*reactor.Conn
	dialErrs       []error
	closeErrs      []error // errors of OnClose at the client
	answers        int     // number of messages that the client has received
}

// newSharedServer makes the loops. The server calls message for each message. The
// function limit may change the limits of the server's device; nil changes nothing.
func newSharedServer(t *testing.T, cfg reactor.Config, limit func(*verbs.DeviceAttr), message func(*reactor.Conn, reactor.Message)) *sharedServer {
	p, err := newStrictProvider(openSoft(t), limit, nil)
	require.NoError(t, err)
	return startSharedServer(t, p, cfg, message)
}

// startSharedServer makes a sharedServer whose server uses the devices of the provider p.
func startSharedServer(t *testing.T, p *strictProvider, cfg reactor.Config, message func(*reactor.Conn, reactor.Message)) *sharedServer {
	s := &sharedServer{t: t}
	cfg.Transport.RNRRetryCount = -1
	var err error
	s.server, err = reactor.NewLoop(p, &hooks{message: message}, &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.server.Close()) })
	s.client = newLoop(t, &hooks{
		open:      func(c *reactor.Conn) { s.dialed = append(s.dialed, c) },
		message:   func(*reactor.Conn, reactor.Message) { s.answers++ },
		dialError: func(_ *reactor.DialOptions, err error) { s.dialErrs = append(s.dialErrs, err) },
		close:     func(_ *reactor.Conn, err error) { s.closeErrs = append(s.closeErrs, err) },
	}, nil)
	s.listener, err = s.server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	return s
}

func (s *sharedServer) drive(cond func() bool) {
	s.t.Helper()
	drive(s.t, cond, s.client, s.server)
}

// dial opens n more connections.
func (s *sharedServer) dial(n int) {
	s.t.Helper()
	want := len(s.dialed) + len(s.dialErrs) + n
	for range n {
		require.NoError(s.t, s.client.Engine().Dial(s.listener.Addr(), nil))
	}
	s.drive(func() bool { return len(s.dialed)+len(s.dialErrs) == want })
}

// send sends n messages on each of the given connections. They are too long to be
// received without a buffer.
func (s *sharedServer) send(n int, conns []*reactor.Conn) {
	s.t.Helper()
	for range n {
		for _, c := range conns {
			require.NoError(s.t, c.Send(make([]byte, 2*verbs.InlineBytes), nil))
		}
	}
}

// driveToMessages waits until the server has counted n messages in Stats.Messages.
func (s *sharedServer) driveToMessages(n uint64) {
	s.t.Helper()
	s.drive(func() bool { return s.server.Stats().Messages == n || len(s.closeErrs) > 0 })
	require.Empty(s.t, s.closeErrs)
}

// closeConns closes connections and waits until the server has removed them.
func (s *sharedServer) closeConns(conns []*reactor.Conn) {
	s.t.Helper()
	want := s.server.Conns() - len(conns)
	for _, c := range conns {
		require.NoError(s.t, c.Close())
	}
	s.drive(func() bool { return s.server.Conns() == want && s.client.Conns() == want })
}

// TestMinRecvBuffers checks that no peer gets an RNR NAK while each has at most
// MinRecvBuffers messages outstanding.
func TestMinRecvBuffers(t *testing.T) {
	const conns, outstanding, rounds = 40, 8, 20
	s := newSharedServer(t, reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 8, MinRecvBuffers: outstanding}}, nil, echo(t))
	s.dial(conns)
	require.Equal(t, conns*outstanding+reactor.SharedRecvBatch, reactor.SharedRecvSize(s.server))
	for round := range rounds {
		s.send(outstanding, s.dialed)
		s.drive(func() bool { return s.answers == (round+1)*conns*outstanding || len(s.closeErrs) > 0 })
		require.Empty(t, s.closeErrs)
	}
	require.Equal(t, conns*outstanding+reactor.SharedRecvBatch, reactor.SharedRecvSize(s.server))
}

// TestMinRecvBuffersWhileKept is TestMinRecvBuffers with a server that keeps all
// messages of a round.
func TestMinRecvBuffersWhileKept(t *testing.T) {
	const conns, outstanding, rounds = 40, 8, 5
	type kept struct {
		conn   *reactor.Conn
		buffer *reactor.Buffer
	}
	var all []kept
	s := newSharedServer(t, reactor.Config{Memory: reactor.Memory{MinRecvBuffers: outstanding, SharedRecvBuffers: 8}}, nil,
		func(c *reactor.Conn, msg reactor.Message) { all = append(all, kept{c, msg.Keep()}) })
	s.dial(conns)
	for round := range rounds {
		s.send(outstanding, s.dialed)
		s.drive(func() bool { return len(all) == conns*outstanding || len(s.closeErrs) > 0 })
		require.Empty(t, s.closeErrs)
		for _, k := range all {
			require.NoError(t, k.conn.SendBuffer(k.buffer, nil))
		}
		all = nil
		s.drive(func() bool { return s.answers == (round+1)*conns*outstanding })
	}
	s.driveToMessages(rounds * conns * outstanding)
	require.Zero(t, s.server.Stats().Unreplaced)
}

// TestMinRecvBuffersExceedDevice checks that a connection is refused if the device can
// not have enough receive buffers. When another connection has closed, a new connection
// is accepted.
func TestMinRecvBuffersExceedDevice(t *testing.T) {
	limit := func(a *verbs.DeviceAttr) { a.MaxSRQWR = 3*10 + reactor.SharedRecvBatch + 9 }
	s := newSharedServer(t, reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 1, MinRecvBuffers: 10}}, limit, echo(t))
	s.dial(3)
	require.Empty(t, s.dialErrs)
	s.dial(1)
	require.Len(t, s.dialErrs, 1)
	var refused *cm.RejectError
	require.ErrorAs(t, s.dialErrs[0], &refused)
	require.Equal(t, cm.RejectNoResources, refused.Reason)
	s.send(1, s.dialed)
	s.drive(func() bool { return s.answers == 3 })
	s.closeConns(s.dialed[:1])
	s.dial(1)
	require.Len(t, s.dialErrs, 1)
}

// TestSharedRecvShrinks checks that the shared receive queue gives buffers back when
// connections close.
func TestSharedRecvShrinks(t *testing.T) {
	const conns, minimum, messages = 60, 16, 50
	s := newSharedServer(t, reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 16, MinRecvBuffers: minimum}}, nil, echo(t))
	s.dial(conns)
	size := func() int { return reactor.SharedRecvSize(s.server) }
	require.Equal(t, conns*minimum+reactor.SharedRecvBatch, size())
	s.closeConns(s.dialed[10:])
	s.dialed = s.dialed[:10]
	for size() > 10*minimum+reactor.SharedRecvBatch {
		before, answers := size(), s.answers
		s.send(10, s.dialed)
		s.drive(func() bool { return s.answers == answers+100 })
		require.Less(t, size(), before)
	}
	require.Equal(t, 10*minimum+reactor.SharedRecvBatch, size())
}

// TestSharedRecvDefault checks on which devices and with which configurations receive
// buffers are shared.
func TestSharedRecvDefault(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    reactor.Config
		attr   func(*verbs.DeviceAttr)
		caps   func(*verbs.Caps)
		shared int // number of shared buffers, or 0 if none are shared
	}{
		"default":              {shared: 256},
		"deep queues":          {cfg: reactor.Config{MaxInFlight: 2000}, shared: 2000},
		"chosen":               {cfg: reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 10}}, shared: 10},
		"forbidden":            {cfg: reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: -1}}},
		"no SRQ":               {caps: func(c *verbs.Caps) { c.SRQ = false }},
		"chosen, but no SRQ":   {cfg: reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 10}}, caps: func(c *verbs.Caps) { c.SRQ = false }},
		"limit of the device":  {attr: func(a *verbs.DeviceAttr) { a.MaxSRQWR = 200 }, shared: 200},
		"small limit":          {attr: func(a *verbs.DeviceAttr) { a.MaxSRQWR = 20 }},
		"limit of completions": {attr: func(a *verbs.DeviceAttr) { a.MaxCQE = 400 }, shared: 200},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newStrictProvider(openSoft(t), func(a *verbs.DeviceAttr) {
				if c.attr != nil {
					c.attr(a)
				}
			}, c.caps)
			require.NoError(t, err)
			server, err := reactor.NewLoop(p, &hooks{message: echo(t)}, &c.cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, server.Close()) }()
			var dialed *reactor.Conn
			echoes := 0
			client := newLoop(t, &hooks{
				open:    func(c *reactor.Conn) { dialed = c },
				message: func(*reactor.Conn, reactor.Message) { echoes++ },
			}, nil)
			ln, err := server.Engine().Listen(loopback, nil)
			require.NoError(t, err)
			require.NoError(t, client.Engine().Dial(ln.Addr(), nil))
			drive(t, func() bool { return dialed != nil }, client, server)
			require.NoError(t, dialed.Send(make([]byte, 1000), nil))
			drive(t, func() bool { return echoes == 1 }, client, server)
			require.Equal(t, c.shared > 0, reactor.SharesReceives(server))
			if c.shared > 0 {
				require.Equal(t, c.shared, reactor.SharedRecvSize(server))
			}
		})
	}
}

// TestSharedRecvDefaultGrows checks the default number of shared receive buffers for few
// and for many connections.
func TestSharedRecvDefaultGrows(t *testing.T) {
	s := newSharedServer(t, reactor.Config{}, nil, echo(t))
	for _, c := range [][2]int{{64, 256}, {100, 400}, {300, 1024}} {
		s.dial(c[0] - len(s.dialed))
		require.Equal(t, c[1], reactor.SharedRecvSize(s.server), "%d connections", c[0])
	}
}

// TestKeptWithoutMemory checks that the receive queue gets a kept buffer back after its
// release if there was no memory for another one.
func TestKeptWithoutMemory(t *testing.T) {
	const buffers = 8
	var kept []*reactor.Buffer
	s := newSharedServer(t, reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: buffers}}, nil,
		func(_ *reactor.Conn, msg reactor.Message) { kept = append(kept, msg.Keep()) })
	s.dial(1)
	end := reactor.FailAlloc(s.server, verbs.ErrNoResources)
	for s.server.Stats().Unreplaced < buffers {
		s.send(1, s.dialed)
		s.driveToMessages(uint64(len(kept)) + 1)
	}
	for range 3 {
		for _, b := range kept {
			b.Release()
		}
		kept = nil
		turn := reactor.Turn(s.server) // The buffers are posted at the end of this turn.
		s.drive(func() bool { return reactor.Turn(s.server) > turn })
		s.send(buffers, s.dialed)
		s.drive(func() bool { return len(kept) == buffers || len(s.closeErrs) > 0 })
		require.Empty(t, s.closeErrs)
	}
	end()
}

// TestQueuePairStaysOpenUntilLastWQE checks that a queue pair is closed only after
// verbs.AsyncQPLastWQE, on a device without verbs.Caps.ProgressManual.
func TestQueuePairStaysOpenUntilLastWQE(t *testing.T) {
	p, err := newStrictProvider(openSoft(t), nil, func(c *verbs.Caps) { c.ProgressManual = false })
	require.NoError(t, err)
	var dropped []verbs.AsyncEvent
	p.device.dropAsync = func(ev verbs.AsyncEvent) { dropped = append(dropped, ev) }
	s := startSharedServer(t, p, reactor.Config{}, echo(t))
	s.dial(1)
	require.NoError(t, s.dialed[0].Close())
	s.drive(func() bool { return len(dropped) > 0 && s.client.Conns() == 0 })
	require.Len(t, dropped, 1)
	require.Equal(t, verbs.AsyncQPLastWQE, dropped[0].Type)
	c := reactor.ConnsOf(s.server)[0]
	s.drive(func() bool { return reactor.InternalState(c) == reactor.StateAwaitingLastWQE })
	reactor.StopStateTimer(c)
	reactor.ScheduleStep(c)
	turn := reactor.Turn(s.server)
	s.drive(func() bool { return reactor.Turn(s.server) > turn+2 })
	require.Equal(t, reactor.StateDisconnecting, c.State())
	reactor.InjectDeviceEvent(c, verbs.AsyncQPLastWQE)
	s.drive(func() bool { return s.server.Conns() == 0 })
}

// TestDeviceWithoutLastWQE checks that only the first connection waits for
// verbs.AsyncQPLastWQE if the device does not report this event.
func TestDeviceWithoutLastWQE(t *testing.T) {
	p, err := newStrictProvider(openSoft(t), nil, func(c *verbs.Caps) { c.ProgressManual = false })
	require.NoError(t, err)
	p.device.dropAsync = func(verbs.AsyncEvent) {}
	s := startSharedServer(t, p, reactor.Config{}, echo(t))
	s.dial(2)
	var waiting []*reactor.Conn // connections of the server in stateAwaitingLastWQE
	closed := func(conns int) func() bool {
		return func() bool {
			for _, c := range reactor.ConnsOf(s.server) {
				if reactor.InternalState(c) == reactor.StateAwaitingLastWQE && !slices.Contains(waiting, c) {
					waiting = append(waiting, c)
					reactor.EndStateTimer(c)
				}
			}
			return s.server.Conns() == conns
		}
	}
	require.NoError(t, s.dialed[0].Close())
	s.drive(closed(1))
	require.NoError(t, s.dialed[1].Close())
	s.drive(closed(0))
	require.Len(t, waiting, 1)
}
