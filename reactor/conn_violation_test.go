//go:build linux

package reactor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requireViolation checks that err says that the peer has sent a request with a wrong
// key.
func requireViolation(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, verbs.ErrProtocol)
	require.EqualError(t, err, "rdma: device: soft0: QP access error")
}

// TestViolationHasOneError checks that a request with a wrong key gives one error, in
// whatever order the loop sees the events.
func TestViolationHasOneError(t *testing.T) {
	for name, late := range map[string]bool{"event first": false, "event last": true} {
		for _, outstanding := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := connect(t, &hooks{}, &hooks{}, nil)
				mr := alloc(t, p.dialed, 8, verbs.AccessLocalWrite)
				require.NoError(t, p.dialed.Write(reactor.Remote{Addr: 8, RKey: 1}, nil, reactor.Piece{Region: mr, Length: 8}))
				if outstanding {
					p.dialed.Flush()
					require.NoError(t, p.accepted.Send([]byte("not delivered"), nil))
				}
				if late {
					reactor.HoldAsyncEvents(p.accepted)
				}
				p.closed(t)
				requireViolation(t, p.acceptCloseErr)
				require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
			})
		}
	}
}

// TestViolationAfterClose checks the error of a request with a wrong key after Close,
// while a send is unconfirmed.
func TestViolationAfterClose(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	mr := alloc(t, p.dialed, 8, verbs.AccessLocalWrite)
	require.NoError(t, p.accepted.Send([]byte("not delivered"), nil))
	require.NoError(t, p.dialed.Write(reactor.Remote{Addr: 8, RKey: 1}, nil, reactor.Piece{Region: mr, Length: 8}))
	p.dialed.Flush()
	reactor.HoldAsyncEvents(p.accepted)
	p.accepted.Close()
	reactor.InjectDisconnected(p.accepted, nil)
	p.closed(t)
	requireViolation(t, p.acceptCloseErr)
}

// TestViolationBeforeOpen checks the error of a request with a wrong key that arrives
// before the connection is open.
func TestViolationBeforeOpen(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		for i, delay := range []time.Duration{0, 20 * time.Millisecond} {
			var failed error
			var dialed *reactor.Conn
			h := w.Host(fmt.Sprint("host", i))
			server := h.Process("server").NewLoop(&hooks{acceptError: func(_ *reactor.ConnRequest, err error) { failed = err }}, nil)
			client := h.Process("client").NewLoop(&hooks{open: func(c *reactor.Conn) {
				dialed = c
				mr := alloc(t, c, 8, verbs.AccessLocalWrite)
				require.NoError(t, c.Write(reactor.Remote{Addr: 8, RKey: 1}, nil, reactor.Piece{Region: mr, Length: 8}))
			}}, nil)
			_, err := server.Engine().Listen(h.AddrPort(1), nil)
			require.NoError(t, err)
			require.NoError(t, client.Engine().Dial(h.AddrPort(1), nil))
			drive(t, func() bool { return len(reactor.ConnsOf(server)) == 1 }, client, server)
			reactor.HoldAsyncEvents(reactor.ConnsOf(server)[0])
			drive(t, func() bool { return dialed != nil }, client)
			drive(t, func() bool {
				inTurn(t, server, func() {
					time.Sleep(delay)
					server.After(0, func() {}) // server.After makes the loop read its clock
				})
				return failed != nil || len(reactor.ConnsOf(server)) == 0
			}, client)
			requireViolation(t, failed)
		}
	})
}

// TestMessageTooLongForPeer checks that the errors of both sides name Config.MaxMessage.
func TestMessageTooLongForPeer(t *testing.T) {
	var acceptErr error
	var dialErr error
	server := newLoop(t, &hooks{close: func(_ *reactor.Conn, err error) { acceptErr = err }}, nil)
	var opened *reactor.Conn
	client := newLoop(t, &hooks{
		open:  func(c *reactor.Conn) { opened = c },
		close: func(_ *reactor.Conn, err error) { dialErr = err },
	}, &reactor.Config{MaxMessage: 8192})
	require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), nil))
	drive(t, func() bool { return opened != nil && server.Stats().Opened == 1 }, client, server)
	require.NoError(t, opened.Send(make([]byte, 8192), nil))
	drive(t, func() bool { return acceptErr != nil && dialErr != nil }, client, server)
	require.Equal(t, verbs.StatusLocLenErr, status(t, acceptErr))
	require.Equal(t, verbs.StatusRemInvReqErr, status(t, dialErr))
	require.ErrorContains(t, acceptErr, "(a message longer than Config.MaxMessage of this side)")
	require.ErrorContains(t, dialErr, "(a message longer than Config.MaxMessage of the peer, or one with bytes to a peer with ImmediatesOnly?)")
}
