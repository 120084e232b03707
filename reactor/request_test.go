package reactor_test

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// dialFor starts a client that dials the server. It returns channels for the open
// connection and for the dial error.
func dialFor(t *testing.T, server *reactor.Engine, d *reactor.DialOptions) (opened chan *reactor.Conn, failed chan error) {
	opened, failed = make(chan *reactor.Conn, 1), make(chan error, 1)
	client := start(t, &hooks{
		open:      func(c *reactor.Conn) { opened <- c },
		dialError: func(_ *reactor.DialOptions, err error) { failed <- err },
	}, nil)
	require.NoError(t, client.Dial(listen(t, server), d))
	return opened, failed
}

func TestRequestDescribesPeer(t *testing.T) {
	requests := make(chan *reactor.ConnRequest, 1)
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) {
		requests <- req
		assert.NoError(t, req.Accept(&reactor.AcceptOptions{PrivateData: []byte("welcome"), ResponderResources: 3, InitiatorDepth: -1}))
	}}, nil)
	opened, _ := dialFor(t, server, &reactor.DialOptions{PrivateData: []byte("hello"), InitiatorDepth: 5, UserData: "mine"})
	req, c := receive(t, requests), receive(t, opened)
	require.Equal(t, "hello", string(req.PrivateData()))
	require.Equal(t, "127.0.0.1", req.RemoteAddr().Addr().String())
	require.EqualValues(t, 5, req.Param().ResponderResources, "the initiator depth of the peer")
	require.NotNil(t, req.Device())
	require.Same(t, server.Loop(0), req.Loop())
	require.Same(t, server, req.Engine())

	require.Equal(t, "mine", c.UserData)
	require.Equal(t, "welcome", string(c.Info().PeerPrivateData))
	require.Equal(t, req.LocalAddr(), c.Info().RemoteAddr)
	require.Equal(t, req.RemoteAddr(), c.Info().LocalAddr)
	require.EqualValues(t, 3, c.Info().InitiatorDepth, "the responder resources of the peer")
	require.Zero(t, c.Info().ResponderResources, "the initiator depth of the peer")
	require.NotZero(t, c.Info().QPNum)
}

func TestRejectWithData(t *testing.T) {
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) {
		assert.NoError(t, req.Reject([]byte("not today")))
		assert.ErrorIs(t, req.Accept(nil), reactor.ErrDecided)
		assert.ErrorIs(t, req.Reject(nil), reactor.ErrDecided)
	}}, nil)
	_, failed := dialFor(t, server, nil)
	var refused *cm.RejectError
	require.ErrorAs(t, receive(t, failed), &refused)
	require.True(t, refused.ByApplication)
	require.Equal(t, "not today", string(refused.PrivateData))
}

func TestAcceptLaterFromAnotherGoroutine(t *testing.T) {
	kept := make(chan *reactor.ConnRequest, 1)
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) { kept <- req }}, nil)
	opened, _ := dialFor(t, server, nil)
	require.NoError(t, receive(t, kept).Accept(nil))
	receive(t, opened)
}

func TestRejectLaterFromAnotherGoroutine(t *testing.T) {
	kept := make(chan *reactor.ConnRequest, 1)
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) { kept <- req }}, nil)
	_, failed := dialFor(t, server, nil)
	require.NoError(t, receive(t, kept).Reject(nil))
	require.ErrorIs(t, receive(t, failed), cm.ErrRefused)
}

func TestBadParametersLeaveTheRequestOpen(t *testing.T) {
	var param *verbs.ParamError
	other := start(t, &hooks{}, nil)
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) {
		assert.ErrorAs(t, req.Accept(&reactor.AcceptOptions{PrivateData: make([]byte, 197)}), &param)
		assert.ErrorAs(t, req.Accept(&reactor.AcceptOptions{InitiatorDepth: 256}), &param)
		assert.ErrorAs(t, req.Reject(make([]byte, 149)), &param)
		assert.ErrorIs(t, req.Accept(&reactor.AcceptOptions{Loop: other.Loop(0)}), verbs.ErrForeign)
		assert.NoError(t, req.Accept(nil))
	}}, nil)
	opened, _ := dialFor(t, server, nil)
	receive(t, opened)
}

// TestAcceptOnLoop checks that Accept can choose the loop of the connection.
func TestAcceptOnLoop(t *testing.T) {
	got := make(chan *reactor.Loop, 1)
	server := start(t, &hooks{
		request: func(req *reactor.ConnRequest) {
			assert.Same(t, req.Engine().Loop(0), req.Loop())
			loop := req.Engine().Loop(1)
			assert.NoError(t, req.Accept(&reactor.AcceptOptions{Loop: loop}))
			assert.Same(t, loop, req.Loop())
		},
		open: func(c *reactor.Conn) { got <- c.Loop() },
	}, &reactor.Config{NumLoops: 2})
	dialFor(t, server, nil)
	require.Same(t, server.Loop(1), receive(t, got))
}

// TestFewestConnections checks that a connection gets the loop with the fewest ones, and that
// equal loops take turns.
func TestFewestConnections(t *testing.T) {
	got := make(chan *reactor.Conn, 1)
	server := start(t, &hooks{open: func(c *reactor.Conn) { got <- c }}, &reactor.Config{NumLoops: 3})
	addr := listen(t, server)
	closed := make(chan bool, 8)
	client := start(t, &hooks{close: func(*reactor.Conn, error) { closed <- true }}, nil)
	var conns []*reactor.Conn
	for _, want := range []int{0, 1, 2, 0} {
		require.NoError(t, client.Dial(addr, nil))
		conns = append(conns, receive(t, got))
		require.Equal(t, want, conns[len(conns)-1].Loop().Index())
	}
	require.NoError(t, conns[2].Post(func(error) { _ = conns[2].Close() }))
	receive(t, closed)
	await(t, func() bool { return server.Loop(2).Conns() == 0 })
	require.NoError(t, client.Dial(addr, nil))
	require.Equal(t, 2, receive(t, got).Loop().Index())
}

// TestListenOnLoop checks that all connections of a listener with ListenOptions.Loop get this
// loop, and that requests are rejected when it is full.
func TestListenOnLoop(t *testing.T) {
	got := make(chan *reactor.Loop, 1)
	server := start(t, &hooks{open: func(c *reactor.Conn) { got <- c.Loop() }}, &reactor.Config{NumLoops: 2, MaxConns: 2})
	other := start(t, &hooks{}, nil)
	_, err := server.Listen(loopback, &reactor.ListenOptions{Loop: other.Loop(0)})
	require.ErrorIs(t, err, verbs.ErrForeign)
	ln, err := server.Listen(loopback, &reactor.ListenOptions{Loop: server.Loop(1)})
	require.NoError(t, err)
	failed := make(chan error, 1)
	client := start(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed <- err }}, nil)
	for range 2 {
		require.NoError(t, client.Dial(ln.Addr(), nil))
		require.Same(t, server.Loop(1), receive(t, got))
	}
	require.NoError(t, client.Dial(ln.Addr(), nil))
	require.ErrorIs(t, receive(t, failed), verbs.ErrNoResources)
	require.NoError(t, client.Dial(listen(t, server), nil))
	require.Same(t, server.Loop(0), receive(t, got))
}

// TestRejectedWhenFull checks that full loops reject a request without OnConnectRequest.
func TestRejectedWhenFull(t *testing.T) {
	var asked atomic.Int32
	server := start(t, &hooks{request: func(req *reactor.ConnRequest) {
		asked.Add(1)
		_ = req.Accept(nil)
	}}, &reactor.Config{MaxConns: 1})
	addr := listen(t, server)
	opened, failed := make(chan *reactor.Conn, 1), make(chan error, 1)
	client := start(t, &hooks{
		open:      func(c *reactor.Conn) { opened <- c },
		dialError: func(_ *reactor.DialOptions, err error) { failed <- err },
	}, nil)
	require.NoError(t, client.Dial(addr, nil))
	receive(t, opened)
	require.NoError(t, client.Dial(addr, nil))
	var refused *cm.RejectError
	require.ErrorAs(t, receive(t, failed), &refused)
	require.False(t, refused.ByApplication)
	require.Equal(t, cm.RejectNoResources, refused.Reason)
	require.ErrorIs(t, refused, verbs.ErrNoResources)
	require.EqualValues(t, 1, asked.Load())
	server.Stop()
	require.NoError(t, server.Wait())
	require.EqualValues(t, 1, server.Stats().NoResources)
}

// TestAcceptOnFullLoop checks that a request is rejected if Accept has chosen a full loop.
func TestAcceptOnFullLoop(t *testing.T) {
	acceptErr, opened := make(chan error, 1), make(chan *reactor.Conn, 1)
	server := start(t, &hooks{
		request: func(req *reactor.ConnRequest) {
			_ = req.Accept(&reactor.AcceptOptions{Loop: req.Engine().Loop(1)})
		},
		acceptError: func(_ *reactor.ConnRequest, err error) { acceptErr <- err },
	}, &reactor.Config{MaxConns: 1, NumLoops: 2})
	addr := listen(t, server)
	failed := make(chan error, 1)
	client := start(t, &hooks{
		open:      func(c *reactor.Conn) { opened <- c },
		dialError: func(_ *reactor.DialOptions, err error) { failed <- err },
	}, nil)
	require.NoError(t, client.Dial(addr, nil))
	receive(t, opened)
	require.NoError(t, client.Dial(addr, nil))
	require.ErrorIs(t, receive(t, failed), verbs.ErrNoResources)
	var param *verbs.ParamError
	err := receive(t, acceptErr)
	require.ErrorAs(t, err, &param)
	require.Equal(t, "connections", param.Field)
	require.ErrorIs(t, err, verbs.ErrNoResources)
}

func TestClosedListener(t *testing.T) {
	server := start(t, &hooks{}, nil)
	ln, err := server.Listen(loopback, nil)
	require.NoError(t, err)
	require.Equal(t, []cm.ServedAddr{{Path: "local", Addr: ln.Addr()}}, ln.Serves())
	require.NoError(t, ln.Close())
	require.NoError(t, ln.Close())
	require.Nil(t, ln.Serves())
	failed := make(chan error, 1)
	client := start(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed <- err }}, nil)
	require.NoError(t, client.Dial(ln.Addr(), nil))
	var refused *cm.RejectError
	require.ErrorAs(t, receive(t, failed), &refused)
	require.False(t, refused.ByApplication)

	again, err := server.Listen(ln.Addr(), nil)
	require.NoError(t, err, "the address is free at once")
	require.Equal(t, ln.Addr(), again.Addr())
	_, err = server.Listen(ln.Addr(), nil)
	require.ErrorIs(t, err, cm.ErrAddrInUse)
}

func TestDialChecks(t *testing.T) {
	e := start(t, &hooks{}, nil)
	var param *verbs.ParamError
	require.ErrorAs(t, e.Dial(loopback, nil), &param)
	require.Equal(t, "port", param.Field)
	addr := listen(t, e)
	for field, d := range map[string]*reactor.DialOptions{
		"private data":        {PrivateData: make([]byte, 57)},
		"timeout":             {Timeout: -1},
		"ACK timeout":         {AckTimeout: -1},
		"retry count":         {RetryCount: 8},
		"RNR retry count":     {RNRRetryCount: -2},
		"responder resources": {ResponderResources: 256},
		"initiator depth":     {InitiatorDepth: -2},
	} {
		require.ErrorAs(t, e.Dial(addr, d), &param, field)
		require.Equal(t, field, param.Field)
	}
	other := start(t, &hooks{}, nil)
	foreign := &reactor.DialOptions{Loop: other.Loop(0)}
	require.ErrorIs(t, e.Dial(addr, foreign), verbs.ErrForeign)
}

// TestDialBalances checks that loops take turns if DialOptions.Loop is nil.
func TestDialBalances(t *testing.T) {
	server := start(t, &hooks{}, nil)
	at := make(chan int, 3)
	client := start(t, &hooks{open: func(c *reactor.Conn) { at <- c.Loop().Index() }}, &reactor.Config{NumLoops: 2})
	addr := listen(t, server)
	for _, d := range []*reactor.DialOptions{{}, {}, {Loop: client.Loop(1)}} {
		require.NoError(t, client.Dial(addr, d))
	}
	require.Equal(t, 2, receive(t, at)+receive(t, at)+receive(t, at))
}

// TestAcceptAfterPeerClosed checks that OnAcceptError gets the error if the client has
// closed before Accept.
func TestAcceptAfterPeerClosed(t *testing.T) {
	kept, acceptErr := make(chan *reactor.ConnRequest, 1), make(chan error, 1)
	server := start(t, &hooks{
		request:     func(req *reactor.ConnRequest) { kept <- req },
		acceptError: func(_ *reactor.ConnRequest, err error) { acceptErr <- err },
		open:        func(*reactor.Conn) { t.Error("OnOpen was called") },
	}, nil)
	client := start(t, &hooks{}, nil)
	require.NoError(t, client.Dial(listen(t, server), nil))
	req := receive(t, kept)
	shutdown(t, client)
	require.NoError(t, req.Accept(nil))
	require.Error(t, receive(t, acceptErr))
}

// TestAcceptOnAnEndedLoop checks that Accept fails and the engine rejects the request if
// its loop has ended.
func TestAcceptOnAnEndedLoop(t *testing.T) {
	refused := false
	server := newLoop(t, &hooks{request: func(req *reactor.ConnRequest) {
		reactor.CloseMailbox(req.Loop())
		require.ErrorIs(t, req.Accept(nil), reactor.ErrShutdown)
	}}, nil)
	client := newLoop(t, &hooks{dialError: func(*reactor.DialOptions, error) { refused = true }}, nil)
	require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), nil))
	drive(t, func() bool { return refused }, client, server)
	require.NoError(t, server.Close())
	require.EqualValues(t, 1, server.Stats().Rejects)
	require.Zero(t, server.Stats().Accepts)
}

// TestCredentials checks that each side of a local connection has its peer's
// credentials, even after the close.
func TestCredentials(t *testing.T) {
	want := cm.Credentials{PID: int32(os.Getpid()), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	check := func(who *cm.Credentials) { assert.Equal(t, &want, who) }
	closed := make(chan struct{})
	server := start(t, &hooks{
		request: func(req *reactor.ConnRequest) {
			check(req.Credentials())
			assert.NoError(t, req.Accept(nil))
		},
		open: func(c *reactor.Conn) { check(c.Info().Credentials) },
		close: func(c *reactor.Conn, _ error) {
			check(c.Info().Credentials)
			close(closed)
		},
	}, nil)
	opened, _ := dialFor(t, server, nil)
	c := receive(t, opened)
	require.NoError(t, c.Loop().Post(func() {
		check(c.Info().Credentials)
		c.Close()
	}))
	<-closed
}
