package reactor_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// recordCalls returns hooks that append each callback's name to calls.
func recordCalls(calls *[]string) *hooks {
	record := func(name string) { *calls = append(*calls, name) }
	return &hooks{
		boot:     func(*reactor.Loop) error { record("boot"); return nil },
		shutdown: func(*reactor.Loop) { record("shutdown") },
		request: func(req *reactor.ConnRequest) {
			record("request")
			_ = req.Accept(nil)
		},
		acceptError: func(*reactor.ConnRequest, error) { record("accept error") },
		listenError: func(*reactor.Listener, error) { record("listen error") },
		open:        func(*reactor.Conn) { record("open") },
		message:     func(*reactor.Conn, reactor.Message) { record("message") },
		completion:  func(*reactor.Conn, reactor.Op, error) { record("completion") },
		writable:    func(*reactor.Conn) { record("writable") },
		close:       func(*reactor.Conn, error) { record("close") },
		dialError:   func(*reactor.DialOptions, error) { record("dial error") },
	}
}

// TestOwnHandlers checks that a listener or dialed connection can have a Handler of its
// own. The engine's Handler still gets the callbacks of loops.
func TestOwnHandlers(t *testing.T) {
	var ofServer, ofListener, ofClient, ofDial []string
	var c *reactor.Conn
	listening, dialing := recordCalls(&ofListener), recordCalls(&ofDial)
	dialing.open = func(opened *reactor.Conn) { c = opened }
	server := newLoop(t, recordCalls(&ofServer), nil)
	client := newLoop(t, recordCalls(&ofClient), &reactor.Config{MaxInFlight: 1})
	ln, err := server.Engine().Listen(loopback, &reactor.ListenOptions{Handler: listening})
	require.NoError(t, err)
	require.NoError(t, client.Engine().Dial(ln.Addr(), &reactor.DialOptions{Handler: dialing}))
	drive(t, func() bool { return c != nil && len(ofListener) == 2 }, server, client)
	require.NoError(t, c.Send([]byte("x"), &reactor.OpOptions{Notify: true}))
	require.ErrorIs(t, c.Send(nil, nil), reactor.ErrWouldBlock)
	drive(t, func() bool { return len(ofDial) == 2 && len(ofListener) == 3 }, server, client)
	require.NoError(t, c.Close())
	drive(t, func() bool { return len(ofDial) == 3 && len(ofListener) == 4 }, server, client)

	require.NoError(t, ln.Close())
	require.NoError(t, client.Engine().Dial(ln.Addr(), &reactor.DialOptions{Handler: dialing}))
	drive(t, func() bool { return len(ofDial) == 4 }, server, client)
	require.NoError(t, server.Close())
	require.NoError(t, client.Close())
	require.Equal(t, []string{"request", "open", "message", "close"}, ofListener)
	require.Equal(t, []string{"completion", "writable", "close", "dial error"}, ofDial)
	require.Equal(t, []string{"boot", "shutdown"}, ofServer)
	require.Equal(t, []string{"boot", "shutdown"}, ofClient)
}

// TestOwnHandlerOfFailedListener checks that a listener's own Handler gets OnAcceptError
// and OnListenError.
func TestOwnHandlerOfFailedListener(t *testing.T) {
	var ofEngine, ofListener []string
	p := openSoft(t)
	server, err := reactor.NewLoop(p, recordCalls(&ofEngine), &reactor.Config{MaxConns: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	var requests []*reactor.ConnRequest
	handler := recordCalls(&ofListener)
	handler.request = func(req *reactor.ConnRequest) { requests = append(requests, req) }
	handler.open = nil
	ln, err := server.Engine().Listen(loopback, &reactor.ListenOptions{Handler: handler})
	require.NoError(t, err)
	failed := 0
	client := newLoop(t, &hooks{dialError: func(*reactor.DialOptions, error) { failed++ }}, nil)
	for range 2 {
		require.NoError(t, client.Engine().Dial(ln.Addr(), nil))
	}
	drive(t, func() bool { return len(requests) == 2 }, server, client)
	for _, req := range requests {
		require.NoError(t, req.Accept(nil))
	}
	drive(t, func() bool { return failed == 1 }, server, client)
	require.Equal(t, []string{"accept error"}, ofListener)

	devices, err := p.Devices()
	require.NoError(t, err)
	reactor.FailListeners(server, devices[0], errors.New("broken"))
	require.Equal(t, []string{"accept error", "listen error"}, ofListener)
	require.Empty(t, ofEngine)
}

// TestConnectionOptions checks that options of a listener or dial override those of
// Config.
func TestConnectionOptions(t *testing.T) {
	var accepted, dialed *reactor.Conn
	cfg := &reactor.Config{Transport: reactor.Transport{AckTimeout: time.Second, RetryCount: 5, RNRRetryCount: 5}}
	server := newLoop(t, &hooks{open: func(c *reactor.Conn) { accepted = c }}, cfg)
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { dialed = c }}, cfg)
	for _, v := range []struct {
		name               string
		listen             *reactor.ListenOptions
		dial               *reactor.DialOptions
		dialAck, acceptAck time.Duration // expected ACK timeouts of both sides
		retries            uint8
		// Expected RNR retry counts of both sides. A side uses the count that its peer has
		// sent.
		dialRNR, acceptRNR     uint8
		dialClass, acceptClass uint8
	}{
		{"defaults", nil, nil, time.Second, time.Second, 5, 5, 5, 0, 0},
		{
			"own", &reactor.ListenOptions{AckTimeout: 2 * time.Second, RNRRetryCount: 2, TOS: 8},
			&reactor.DialOptions{AckTimeout: 4 * time.Second, RetryCount: 4, RNRRetryCount: -1},
			4 * time.Second, 2 * time.Second, 4, 2, 0, 0, 8,
		},
		{"type of service", nil, &reactor.DialOptions{TOS: 16}, time.Second, time.Second, 5, 5, 5, 16, 0},
	} {
		ln, err := server.Engine().Listen(loopback, v.listen)
		require.NoError(t, err)
		accepted, dialed = nil, nil
		require.NoError(t, client.Engine().Dial(ln.Addr(), v.dial))
		drive(t, func() bool { return accepted != nil && dialed != nil }, server, client)
		check := func(c *reactor.Conn, ack time.Duration, rnr, class uint8) {
			t.Helper()
			attr, err := reactor.QueryQP(c)
			require.NoError(t, err)
			code, _ := verbs.AckTimeoutCode(ack)
			require.Equal(t, code, attr.Timeout)
			require.Equal(t, v.retries, attr.RetryCount)
			require.Equal(t, rnr, attr.RNRRetry)
			require.Equal(t, class, attr.AH.TrafficClass)
		}
		check(dialed, v.dialAck, v.dialRNR, v.dialClass)
		check(accepted, v.acceptAck, v.acceptRNR, v.acceptClass)
	}
}

// TestListenParameters checks that options that are out of range are refused.
func TestListenParameters(t *testing.T) {
	e := start(t, &hooks{}, nil)
	var param *verbs.ParamError
	for field, o := range map[string]*reactor.ListenOptions{
		"ACK timeout":     {AckTimeout: verbs.AckTimeout(31) + 1},
		"RNR retry count": {RNRRetryCount: 8},
	} {
		_, err := e.Listen(loopback, o)
		require.ErrorAs(t, err, &param, field)
		require.Equal(t, field, param.Field)
	}
}

// TestReuseAddr checks that a dial or listener can share an address only with the option
// ReuseAddr.
func TestReuseAddr(t *testing.T) {
	p := openSoft(t)
	channel, err := cm.OpenChannel(p)
	require.NoError(t, err)
	defer func() { require.NoError(t, channel.Close()) }()
	id, err := channel.NewID(cm.TCP)
	require.NoError(t, err)
	defer func() { require.NoError(t, id.Close()) }()
	require.NoError(t, id.SetReuseAddr(true))
	require.NoError(t, id.Bind(loopback))

	results := make(chan error, 1)
	e := start(t, &hooks{
		open:      func(c *reactor.Conn) { results <- nil },
		dialError: func(_ *reactor.DialOptions, err error) { results <- err },
	}, nil)
	addr := listen(t, start(t, &hooks{}, nil))
	require.NoError(t, e.Dial(addr, &reactor.DialOptions{LocalAddr: id.LocalAddr()}))
	require.ErrorIs(t, receive(t, results), cm.ErrAddrInUse)
	require.NoError(t, e.Dial(addr, &reactor.DialOptions{LocalAddr: id.LocalAddr(), ReuseAddr: true}))
	require.NoError(t, receive(t, results))

	_, err = e.Listen(id.LocalAddr(), nil)
	require.ErrorIs(t, err, cm.ErrAddrInUse)
	_, err = e.Listen(id.LocalAddr(), &reactor.ListenOptions{ReuseAddr: true})
	require.NoError(t, err)
}

// TestListenV6Only checks that a listener at :: with V6Only leaves the port at 0.0.0.0
// free.
func TestListenV6Only(t *testing.T) {
	e := start(t, &hooks{}, nil)
	four := netip.IPv4Unspecified()
	ln, err := e.Listen(netip.AddrPortFrom(four, 0), nil)
	require.NoError(t, err)
	six := netip.AddrPortFrom(netip.IPv6Unspecified(), ln.Addr().Port())
	_, err = e.Listen(six, nil)
	require.Error(t, err)
	_, err = e.Listen(six, &reactor.ListenOptions{V6Only: true})
	require.NoError(t, err)
}
