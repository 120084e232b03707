package reactor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestDeviceRemoved checks that a device removal ends connections at once. The peer does
// not run and the timeouts are long, so nothing else can end the connections.
func TestDeviceRemoved(t *testing.T) {
	removals := map[string]func(*reactor.Conn){
		"removed": reactor.RemoveDevice,
		"fatal":   func(c *reactor.Conn) { reactor.InjectDeviceEvent(c, verbs.AsyncDeviceFatal) },
	}
	before := map[string]func(*testing.T, *pair){
		"open": func(*testing.T, *pair) {},
		"draining": func(t *testing.T, p *pair) {
			require.NoError(t, p.dialed.Close())
			drive(t, func() bool { return p.dialed.State() == reactor.StateDraining }, p.client)
		},
		"flushing": func(t *testing.T, p *pair) {
			require.NoError(t, p.dialed.Abort(nil))
			require.Equal(t, reactor.StateClosing, p.dialed.State())
		},
		"broken": func(_ *testing.T, p *pair) { reactor.FailCQ(p.dialed, reactor.ErrAborted) },
	}
	for how, remove := range removals {
		for state, prepare := range before {
			t.Run(state+" "+how, func(t *testing.T) {
				var ends []error
				p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) { ends = append(ends, err) }}, &hooks{},
					&reactor.Config{Limits: reactor.Limits{DrainTimeout: 100 * testTimeout}})
				require.NoError(t, p.dialed.Send(make([]byte, 4096), &reactor.OpOptions{Notify: true}))
				prepare(t, p)
				remove(p.dialed)
				drive(t, func() bool { return p.client.Conns() == 0 }, p.client)
				require.Equal(t, 1, p.dialCloses)
				require.Len(t, ends, 1)
				require.Error(t, ends[0])
				requireRemovalError(t, state, how, p.dialCloseErr)
				p.drive(t, func() bool { return p.acceptCloses > 0 })
				require.NoError(t, p.client.Close())
				require.Zero(t, p.client.Stats().DrainTimeouts)
				require.Zero(t, p.client.Stats().SendRequests, "nothing is posted to a removed device")
			})
		}
	}
}

// requireRemovalError requires that err reports the device removal, or an earlier reason
// for the end of the connection.
func requireRemovalError(t *testing.T, state, how string, err error) {
	t.Helper()
	switch {
	case state == "flushing" || state == "broken":
		require.ErrorIs(t, err, reactor.ErrAborted)
	case how == "removed":
		require.ErrorIs(t, err, reactor.ErrDeviceRemoved)
	default:
		var event *verbs.AsyncError
		require.ErrorAs(t, err, &event)
		require.Equal(t, verbs.AsyncDeviceFatal, event.Type)
	}
}

// TestDeviceRemovedWhileParting checks that a device removal ends the wait of
// StateDisconnecting.
func TestDeviceRemovedWhileParting(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Limits: reactor.Limits{DrainTimeout: 100 * testTimeout}})
	require.NoError(t, p.dialed.Close())
	drive(t, func() bool { return p.dialCloses > 0 }, p.client)
	require.Equal(t, reactor.StateDisconnecting, p.dialed.State())
	require.NoError(t, p.dialCloseErr)
	reactor.RemoveDevice(p.dialed)
	drive(t, func() bool { return p.client.Conns() == 0 }, p.client)
	require.Equal(t, 1, p.dialCloses)
}

// TestDeviceRemovedForAllConns checks that one removal event ends all connections of the
// device, and that new ones fail.
func TestDeviceRemovedForAllConns(t *testing.T) {
	var conns []*reactor.Conn
	var ends []error
	client, server := &hooks{}, &hooks{}
	p := connect(t, client, server, nil)
	// The server may get an error for the second connection. The test does not check it.
	server.acceptError = nil
	client.open = func(c *reactor.Conn) { conns = append(conns, c) }
	client.close = func(_ *reactor.Conn, err error) { ends = append(ends, err) }
	ln, err := p.server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, p.client.Engine().Dial(ln.Addr(), nil))
	p.drive(t, func() bool { return len(conns) == 1 })

	reactor.RemoveDevice(p.dialed)
	drive(t, func() bool { return p.client.Conns() == 0 }, p.client)
	require.Equal(t, []error{reactor.ErrDeviceRemoved, reactor.ErrDeviceRemoved}, ends)

	var refused error
	client.dialError = func(_ *reactor.DialOptions, err error) { refused = err }
	require.NoError(t, p.client.Engine().Dial(ln.Addr(), nil))
	drive(t, func() bool { return refused != nil }, p.client)
	require.ErrorIs(t, refused, reactor.ErrDeviceRemoved)
}

// TestDeviceRemovedWhileConnecting checks that a device removal fails an opening
// connection.
func TestDeviceRemovedWhileConnecting(t *testing.T) {
	var refused error
	client := &hooks{dialError: func(_ *reactor.DialOptions, err error) { refused = err }}
	server, l := newLoop(t, &hooks{}, nil), newLoop(t, client, &reactor.Config{Limits: reactor.Limits{ConnectTimeout: 100 * testTimeout}})
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, l.Engine().Dial(ln.Addr(), nil))
	drive(t, func() bool {
		return len(reactor.ConnsOf(l)) == 1 && reactor.ConnsOf(l)[0].State() == reactor.StateConnecting
	}, l)
	reactor.RemoveDevice(reactor.ConnsOf(l)[0])
	drive(t, func() bool { return refused != nil }, l)
	require.ErrorIs(t, refused, reactor.ErrDeviceRemoved)
	require.Zero(t, l.Conns())
}

// TestDeviceEventsFail checks that connections and listeners end if the asynchronous
// events of their device can not be read.
func TestDeviceEventsFail(t *testing.T) {
	broken := errors.New("no more events")
	p, err := newStrictProvider(openSoft(t), nil, nil)
	require.NoError(t, err)
	var accepted, dialed *reactor.Conn
	var closed []*reactor.Listener
	var listenErr, acceptEnd, dialEnd error
	server, err := reactor.NewLoop(p, &hooks{
		open:  func(c *reactor.Conn) { accepted = c },
		close: func(_ *reactor.Conn, err error) { acceptEnd = err },
		listenError: func(ln *reactor.Listener, err error) {
			closed, listenErr = append(closed, ln), err
		},
	}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	client := newLoop(t, &hooks{
		open:  func(c *reactor.Conn) { dialed = c },
		close: func(_ *reactor.Conn, err error) { dialEnd = err },
	}, nil)
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, client.Engine().Dial(ln.Addr(), nil))
	drive(t, func() bool { return accepted != nil && dialed != nil }, client, server)

	p.device.failAsync(broken)
	reactor.FetchAsyncEvents(accepted)
	drive(t, func() bool { return acceptEnd != nil && dialEnd != nil && len(closed) > 0 }, client, server)
	require.ErrorIs(t, acceptEnd, broken)
	require.ErrorIs(t, listenErr, broken)
	require.ErrorIs(t, dialEnd, reactor.ErrPeerClosed)
	require.Equal(t, []*reactor.Listener{ln}, closed)

	again, err := server.Engine().Listen(ln.Addr(), nil)
	require.NoError(t, err, "the engine can still listen, and the address is free")
	require.NoError(t, again.Close())
}
