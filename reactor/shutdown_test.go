package reactor_test

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestShutdownUnderLoad checks that a server that shuts down delivers all messages that
// its Send has accepted.
func TestShutdownUnderLoad(t *testing.T) {
	const conns = 8
	for _, loops := range []int{1, 2} {
		var accepted, confirmed, failed atomic.Uint64
		var busy atomic.Int32 // number of connections that have received 1000 messages
		server, err := reactor.New(openSoft(t), &hooks{
			message: func(c *reactor.Conn, msg reactor.Message) {
				if err := c.Send(msg.Data(), nil); err != nil {
					assert.ErrorIs(t, err, reactor.ErrWouldBlock)
				}
				if c.Stats().Messages == 1000 {
					busy.Add(1)
				}
			},
			close: func(c *reactor.Conn, err error) {
				s := c.Stats()
				accepted.Add(s.Accepted)
				confirmed.Add(s.Confirmed)
				failed.Add(s.Failed)
				assert.NoError(t, err)
			},
		}, &reactor.Config{NumLoops: loops})
		require.NoError(t, err)
		require.NoError(t, server.Start())

		var received atomic.Uint64
		results := make(chan error, conns)
		pump := func(c *reactor.Conn) {
			for c.Send([]byte("load"), nil) == nil {
			}
		}
		client := start(t, &hooks{
			open:     pump,
			writable: pump,
			message:  func(c *reactor.Conn, _ reactor.Message) { received.Add(1); pump(c) },
			close:    func(_ *reactor.Conn, err error) { results <- err },
		}, &reactor.Config{NumLoops: loops})
		addr := listen(t, server)
		for range conns {
			require.NoError(t, client.Dial(addr, nil))
		}
		await(t, func() bool { return busy.Load() == conns })
		shutdown(t, server)
		for range conns {
			require.ErrorIs(t, receive(t, results), reactor.ErrPeerClosed)
		}
		require.Positive(t, accepted.Load())
		require.Equal(t, accepted.Load(), confirmed.Load())
		require.Zero(t, failed.Load())
		require.Equal(t, accepted.Load(), received.Load())
		require.ErrorIs(t, server.Dial(addr, nil), reactor.ErrClosed, "the engine has ended")
		_, err = server.Listen(loopback, nil)
		require.ErrorIs(t, err, reactor.ErrClosed, "the engine has ended")
	}
}

// await waits until cond() returns true. It calls cond() every millisecond, on another
// goroutine.
func await(t testing.TB, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, testTimeout, time.Millisecond)
}

// TestShutdownRejectsPendingRequests checks that Shutdown rejects unanswered requests
// and ends opening connections.
func TestShutdownRejectsPendingRequests(t *testing.T) {
	kept := make(chan *reactor.ConnRequest, 1)
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) { kept <- req }}, nil)
	failed := make(chan error, 2)
	h := &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed <- err }}
	client := start(t, h, nil)
	require.NoError(t, client.Dial(listen(t, server), nil))
	req := receive(t, kept)
	shutdown(t, server)
	require.ErrorIs(t, receive(t, failed), cm.ErrRefused)
	require.ErrorIs(t, req.Accept(nil), reactor.ErrShutdown)

	silent := start(t, &hooks{request: func(req *reactor.ConnRequest) { kept <- req }}, nil)
	require.NoError(t, client.Dial(listen(t, silent), nil))
	receive(t, kept)
	shutdown(t, client)
	require.ErrorIs(t, receive(t, failed), reactor.ErrShutdown)
}

// TestAcceptDuringShutdown checks that an Accept during a shutdown fails, or is followed
// by OnOpen or OnAcceptError.
func TestAcceptDuringShutdown(t *testing.T) {
	for range 20 {
		kept := make(chan *reactor.ConnRequest, 1)
		var results atomic.Int32 // number of calls of OnOpen and OnAcceptError
		server := start(t, &hooks{
			request:     func(req *reactor.ConnRequest) { kept <- req },
			acceptError: func(*reactor.ConnRequest, error) { results.Add(1) },
			open:        func(*reactor.Conn) { results.Add(1) },
		}, &reactor.Config{NumLoops: 2})
		client := start(t, &hooks{}, nil)
		require.NoError(t, client.Dial(listen(t, server), nil))
		req := receive(t, kept)
		answered := make(chan error, 1)
		go func() { answered <- req.Accept(&reactor.AcceptOptions{Loop: server.Loop(1)}) }()
		shutdown(t, server)
		if receive(t, answered) == nil {
			require.EqualValues(t, 1, results.Load())
		} else {
			require.Zero(t, results.Load())
		}
	}
}

// TestStatsAfterTheEnd checks that the gauges are 0 when the engine has ended, and that the
// counters stay. When OnShutdown is called, there are no connections and timers.
func TestStatsAfterTheEnd(t *testing.T) {
	down := make(chan reactor.Stats, 2)
	opened := make(chan struct{}, 8)
	e := start(t, &hooks{
		boot:     func(l *reactor.Loop) error { l.After(time.Hour, func() {}); return nil },
		open:     func(*reactor.Conn) { opened <- struct{}{} },
		shutdown: func(l *reactor.Loop) { down <- l.Stats() },
	}, &reactor.Config{NumLoops: 2})
	_, err := e.Alloc(1<<20, verbs.AccessLocalWrite)
	require.NoError(t, err)
	addr := listen(t, e)
	for range 4 {
		require.NoError(t, e.Dial(addr, nil))
	}
	for range 8 {
		receive(t, opened)
	}
	await(t, func() bool { return e.Stats().Conns == 8 })
	shutdown(t, e)
	for range 2 {
		s := receive(t, down)
		require.Zero(t, s.Conns)
		require.Zero(t, s.Timers)
		require.EqualValues(t, 1, s.CQs)
	}
	s := e.Stats()
	require.EqualValues(t, 8, s.Opened)
	require.EqualValues(t, 8, s.Closed)
	for _, field := range reflect.VisibleFields(reflect.TypeOf(s)) {
		if field.Tag.Get("kind") == "gauge" {
			require.Zero(t, reflect.ValueOf(s).FieldByIndex(field.Index).Interface(), field.Name)
		}
	}
}

func TestShutdownBeforeStart(t *testing.T) {
	engine, err := reactor.New(openSoft(t), &hooks{}, &reactor.Config{NumLoops: 2})
	require.NoError(t, err)
	listen(t, engine)
	shutdown(t, engine)
	require.ErrorIs(t, engine.Loop(0).Post(func() {}), reactor.ErrClosed)
	require.Error(t, engine.Start())
	engine.Stop()
	require.NoError(t, engine.Wait())
}

// TestStopInCallback checks that a callback may call Stop.
func TestStopInCallback(t *testing.T) {
	engine := start(t, &hooks{}, &reactor.Config{NumLoops: 2})
	require.NoError(t, engine.Loop(0).Post(engine.Stop))
	require.NoError(t, engine.Wait())
}

// TestShutdownStepsPerTurn checks that many closing connections end in steps, at most
// CloseBudget steps per turn.
func TestShutdownStepsPerTurn(t *testing.T) {
	const conns = 3 * reactor.CloseBudget
	for name, end := range map[string]func(*reactor.Loop){
		"closed":  func(l *reactor.Loop) { l.Engine().Stop() },
		"aborted": func(l *reactor.Loop) { reactor.AbortConns(l) },
	} {
		t.Run(name, func(t *testing.T) {
			// closedInTurn counts the connections that closed in each turn.
			opened, closedInTurn := 0, make(map[uint64]int)
			server := newLoop(t, &hooks{
				open:  func(*reactor.Conn) { opened++ },
				close: func(c *reactor.Conn, _ error) { closedInTurn[reactor.Turn(c.Loop())]++ },
			}, nil)
			client := newLoop(t, &hooks{}, nil)
			ln, err := server.Engine().Listen(loopback, nil)
			require.NoError(t, err)
			for range conns {
				require.NoError(t, client.Engine().Dial(ln.Addr(), nil))
			}
			drive(t, func() bool { return opened == conns }, client, server)
			end(server)
			sum := 0
			drive(t, func() bool { return server.Conns() == 0 }, server, client)
			for turn, n := range closedInTurn {
				require.LessOrEqual(t, n, reactor.CloseBudget, "in turn %d", turn)
				sum += n
			}
			require.Equal(t, conns, sum)
		})
	}
}

// TestAbortKeepsAnEarlierReason checks that OnDialError gets the error of a connection
// that has failed just before the loop aborts all connections.
func TestAbortKeepsAnEarlierReason(t *testing.T) {
	var failed error
	server := newLoop(t, &hooks{}, nil)
	client := newLoop(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed = err }}, nil)
	require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), nil))
	drive(t, func() bool {
		conns := reactor.ConnsOf(client)
		return len(conns) == 1 && conns[0].State() == reactor.StateConnecting
	}, client)
	broken := errors.New("broken")
	reactor.FailCQ(reactor.ConnsOf(client)[0], broken)
	reactor.AbortConns(client)
	drive(t, func() bool { return failed != nil }, client)
	require.ErrorIs(t, failed, broken)
}
