//go:build linux

package reactor_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A closingPair has a server that ends a connection, and a client that learns why.
type closingPair struct {
	*reactortest.World
	t             *testing.T
	server        *reactor.Engine
	serverHost    *reactortest.Host
	conn          *reactor.Conn // the connection, as the server has it
	ended         bool          // true if OnClose of the server was called
	err           error         // argument of OnClose of the server
	client        *reactortest.Conn
	clientProcess *reactortest.Process
}

// do calls fn with the server's connection, on its loop.
func (p *closingPair) do(fn func(c *reactor.Conn) error) {
	p.t.Helper()
	p.On(p.conn.Loop(), func() { require.NoError(p.t, fn(p.conn)) })
}

// wantEnd lets time pass until the server's connection has ended, and checks the error.
func (p *closingPair) wantEnd(want error) {
	p.t.Helper()
	p.Until(time.Minute, func() bool { return p.ended })
	require.ErrorIs(p.t, p.err, want)
}

// closeOnPaths calls fn with two closingPairs: one whose sides are on one host, and one whose
// sides are on two. If stop is not nil, it is OnStop of the server.
func closeOnPaths(t *testing.T, stop func(*reactor.Conn), fn func(p *closingPair)) {
	t.Helper()
	for _, path := range []string{"local", "wire"} {
		t.Run(path, func(t *testing.T) {
			reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
				p := &closingPair{World: w, t: t, serverHost: w.Host("server")}
				plain := &hooks{
					open:  func(c *reactor.Conn) { p.conn = c },
					close: func(_ *reactor.Conn, err error) { p.ended, p.err = true, err },
				}
				handler := reactor.Handler(plain)
				if stop != nil {
					handler = &stopHooks{hooks: *plain, stop: stop}
				}
				cfg := &reactor.Config{MaxLongMessage: 1 << 20, Limits: reactor.Limits{DrainTimeout: shortTime}}
				p.server = p.serverHost.Process("server").Start(&hooks{}, cfg)
				_, err := p.server.Listen(p.serverHost.AddrPort(1), &reactor.ListenOptions{Handler: handler})
				require.NoError(t, err)
				clientHost := p.serverHost
				if path == "wire" {
					clientHost = w.Host("client")
				}
				p.clientProcess = clientHost.Process("client")
				p.client = p.Dial(p.clientProcess.Start(&hooks{}, quiet(cfg)), p.serverHost.AddrPort(1), nil)
				p.Until(time.Second, func() bool { return p.conn != nil })
				fn(p)
			})
		})
	}
}

// stopClient stops the client's process while fn runs.
func (p *closingPair) stopClient(fn func()) {
	p.clientProcess.Stop()
	fn()
	p.clientProcess.Continue()
}

// A closeTest is a way to end a connection, and the reason that the peer gets.
type closeTest struct {
	stop func(*reactor.Conn) // OnStop of the server, or nil
	end  func(p *closingPair)
	want reactor.CloseReason
}

// closeCalls are calls of the application that end a connection.
func closeCalls() map[string]closeTest {
	long := strings.Repeat("x", reactor.MaxCloseText)
	return map[string]closeTest{
		"Close": {
			end:  func(p *closingPair) { p.do((*reactor.Conn).Close) },
			want: reactor.CloseReason{Kind: reactor.CloseNormal},
		},
		"CloseWith": {
			end:  func(p *closingPair) { p.do(func(c *reactor.Conn) error { return c.CloseWith(7, "too slow") }) },
			want: reactor.CloseReason{Kind: reactor.CloseNormal, Code: 7, Text: "too slow"},
		},
		"the longest text": {
			end:  func(p *closingPair) { p.do(func(c *reactor.Conn) error { return c.CloseWith(1<<32-1, long) }) },
			want: reactor.CloseReason{Kind: reactor.CloseNormal, Code: 1<<32 - 1, Text: long},
		},
		"Abort": {
			end:  func(p *closingPair) { p.do(func(c *reactor.Conn) error { return c.Abort(errors.New("a secret")) }) },
			want: reactor.CloseReason{Kind: reactor.CloseAborted},
		},
		"Abort with an error of the library": {
			end:  func(p *closingPair) { p.do(func(c *reactor.Conn) error { return c.Abort(reactor.ErrIdle) }) },
			want: reactor.CloseReason{Kind: reactor.CloseAborted},
		},
		"Abort after CloseWith": {
			end: func(p *closingPair) {
				p.do(func(c *reactor.Conn) error { return errors.Join(c.CloseWith(7, "too slow"), c.Abort(nil)) })
			},
			want: reactor.CloseReason{Kind: reactor.CloseAborted, Code: 7, Text: "too slow"},
		},
	}
}

// otherEnds are other reasons for the end of a connection.
var otherEnds = map[string]closeTest{
	"idle": {
		end: func(p *closingPair) {
			p.do(func(c *reactor.Conn) error { c.SetIdleTimeout(time.Second); return nil })
			p.wantEnd(reactor.ErrIdle)
		},
		want: reactor.CloseReason{Kind: reactor.CloseIdle},
	},
	"timeout": {
		end: func(p *closingPair) {
			p.do(func(c *reactor.Conn) error { c.SetTimeout(time.Second); return nil })
			p.wantEnd(reactor.ErrTimeout)
		},
		want: reactor.CloseReason{Kind: reactor.CloseTimeout},
	},
	"keepalive": {
		end:  func(p *closingPair) { p.stopClient(func() { p.wantEnd(reactor.ErrKeepalive) }) },
		want: reactor.CloseReason{Kind: reactor.CloseSilent},
	},
	"drain timeout": {
		end: func(p *closingPair) {
			p.stopClient(func() {
				p.do(func(c *reactor.Conn) error { return errors.Join(c.Send([]byte("x"), nil), c.CloseWith(7, "bye")) })
				p.wantEnd(reactor.ErrDrainTimeout)
			})
		},
		want: reactor.CloseReason{Kind: reactor.CloseSilent, Code: 7, Text: "bye"},
	},
	"protocol": {
		end: func(p *closingPair) {
			p.On(p.client.Loop(), func() { reactor.SendControl(p.client.Conn, []byte("nonsense")); p.client.Flush() })
			p.wantEnd(verbs.ErrProtocol)
		},
		want: reactor.CloseReason{Kind: reactor.CloseProtocol},
	},
	"failure": {
		end: func(p *closingPair) {
			p.On(p.conn.Loop(), func() { reactor.FailRequest(p.conn, verbs.StatusLocQPOpErr) })
			p.Until(time.Second, func() bool { return p.ended })
		},
		want: reactor.CloseReason{Kind: reactor.CloseFailed},
	},
	"shutdown": {
		end:  func(p *closingPair) { p.server.Stop() },
		want: reactor.CloseReason{Kind: reactor.CloseShutdown},
	},
	"shutdown with OnStop": {
		stop: func(c *reactor.Conn) { _ = c.CloseWith(4, "maintenance") },
		end:  func(p *closingPair) { p.server.Stop() },
		want: reactor.CloseReason{Kind: reactor.CloseShutdown, Code: 4, Text: "maintenance"},
	},
	"shutdown with OnStop that forgets Close": {
		stop: func(*reactor.Conn) {},
		end:  func(p *closingPair) { p.server.Stop() },
		want: reactor.CloseReason{Kind: reactor.CloseShutdown},
	},
	"shutdown that is cut short": {
		end: func(p *closingPair) {
			p.stopClient(func() {
				p.do(func(c *reactor.Conn) error { return c.Send([]byte("x"), nil) })
				ctx, cancel := context.WithTimeout(p.t.Context(), reactor.SilentLimit/2)
				defer cancel()
				require.ErrorIs(p.t, p.server.Shutdown(ctx), context.DeadlineExceeded)
				require.ErrorIs(p.t, p.err, reactor.ErrShutdown)
			})
		},
		want: reactor.CloseReason{Kind: reactor.CloseShutdown},
	},
}

// TestCloseReason checks that the client learns what has ended its connection, and which code
// and text the application of the server has given.
func TestCloseReason(t *testing.T) {
	tests := closeCalls()
	maps.Copy(tests, otherEnds)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			closeOnPaths(t, test.stop, func(p *closingPair) {
				test.end(p)
				var end *reactor.CloseError
				require.ErrorAs(p.t, p.client.WantClose(reactor.ErrPeerClosed), &end)
				require.Equal(p.t, test.want, end.Peer)
				if test.want.Text != "" {
					require.ErrorContains(p.t, end, test.want.Text)
				}
			})
		})
	}
}

// TestCloseWithChecksItsText checks that a text that is too long is refused, and that the
// connection stays open.
func TestCloseWithChecksItsText(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	var param *verbs.ParamError
	require.ErrorAs(t, p.dialed.CloseWith(1, strings.Repeat("x", reactor.MaxCloseText+1)), &param)
	require.EqualValues(t, reactor.MaxCloseText, param.Limit)
	require.Equal(t, reactor.StateOpen, p.dialed.State())
	require.NoError(t, p.dialed.CloseWith(1, "bye"))
	require.ErrorIs(t, p.dialed.CloseWith(2, "again"), reactor.ErrClosed)
	p.closed(t)
	require.EqualError(t, p.acceptCloseErr, `closed by the peer (closed, code 1: "bye")`)
}

// TestPeersWithoutReason checks that the private data of other programs is not taken for a
// reason.
func TestPeersWithoutReason(t *testing.T) {
	ends := make(chan error, 1)
	server := start(t, &hooks{close: func(_ *reactor.Conn, err error) { ends <- err }}, nil)
	to := listen(t, server)
	for name, data := range map[string][]byte{"none": nil, "zeros": make([]byte, 220), "a text": []byte("bye"), "cut": []byte("rdmaloop\x01")} {
		t.Run(name, func(t *testing.T) {
			p, err := soft.Open(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			devices, err := p.Devices()
			require.NoError(t, err)
			side := cmside.Open(t, p, devices[0])
			id := side.Connecting(cm.TCP, to, nil)
			side.Want(cm.Established, id)
			require.NoError(t, id.Disconnect(data))
			require.Equal(t, &reactor.CloseError{Cause: reactor.ErrPeerClosed}, receive(t, ends))
			side.Want(cm.Disconnected, id)
			side.Want(cm.TimewaitExit, id)
		})
	}
}

// TestRejectText checks that the text of a reject arrives without padding on both paths.
func TestRejectText(t *testing.T) {
	closeOnPaths(t, nil, func(p *closingPair) {
		var failed error
		_, err := p.server.Listen(p.serverHost.AddrPort(2), &reactor.ListenOptions{
			Handler: &hooks{request: func(req *reactor.ConnRequest) { require.NoError(p.t, req.Reject([]byte("not today"))) }},
		})
		require.NoError(p.t, err)
		client := &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed = err }}
		require.NoError(p.t, p.client.Loop().Engine().Dial(p.serverHost.AddrPort(2), &reactor.DialOptions{Handler: client}))
		p.Until(time.Second, func() bool { return failed != nil })
		var refused *cm.RejectError
		require.ErrorAs(p.t, failed, &refused)
		require.Equal(p.t, "not today", refused.Text())
		require.ErrorContains(p.t, failed, `refused by the application: "not today"`)
	})
}
