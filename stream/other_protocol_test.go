//go:build linux

package stream_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A messageSide is one side of a connection of package reactor, for messages. It greets its
// peer if hello is not nil.
type messageSide struct {
	reactor.BaseHandler
	hello        []byte
	open, closed bool
	err          error // argument of OnClose or OnDialError
}

func (m *messageSide) OnOpen(c *reactor.Conn) {
	m.open = true
	if m.hello != nil {
		_ = c.Send(m.hello, nil) // The peer may have disconnected.
	}
}

func (m *messageSide) OnClose(_ *reactor.Conn, err error) { m.closed, m.err = true, err }

func (m *messageSide) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	m.closed, m.err = true, err
}

// onBothPaths calls fn in a World with a server's process and a client's, on one host and on
// two.
func onBothPaths(t *testing.T, fn func(t *testing.T, w *reactortest.World, server, client *reactortest.Process)) {
	for name, hosts := range map[string][2]string{"local": {"a", "a"}, "wire": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
				of := map[string]*reactortest.Host{"a": w.Host("a"), "b": w.Host("b")}
				fn(t, w, of[hosts[0]].Process("server"), of[hosts[1]].Process("client"))
			})
		})
	}
}

// TestMessagesToStreamServer checks that a client of package reactor learns that the server
// takes streams.
func TestMessagesToStreamServer(t *testing.T) {
	onBothPaths(t, func(t *testing.T, w *reactortest.World, server, client *reactortest.Process) {
		addr := server.Host().AddrPort(1)
		_, err := stream.Listen(server.Start(reactor.BaseHandler{}, nil), addr, stream.BaseHandler{}, nil)
		require.NoError(t, err)
		e := client.Start(reactor.BaseHandler{}, nil)
		for _, private := range []string{"", "private data of a client of package reactor"} {
			m := &messageSide{}
			require.NoError(t, e.Dial(addr, &reactor.DialOptions{Handler: m, PrivateData: []byte(private)}))
			w.Until(time.Second, func() bool { return m.closed })
			var rejected *cm.RejectError
			require.ErrorAs(t, m.err, &rejected)
			require.EqualError(t, m.err, "dial "+addr.String()+`: connection refused by the application: `+
				`"this server takes streams: dial it with package stream, which speaks version 1 of the rsocket protocol"`)
			require.False(t, m.open)
		}
	})
}

// TestStreamToMessageServer checks that a client of package stream learns that the server is
// none of streams, and that the server's connection ends, also if the server sends a message
// before the client's loop runs again.
func TestStreamToMessageServer(t *testing.T) {
	for _, private := range []string{"", "private data of an application of package reactor"} {
		onBothPaths(t, func(t *testing.T, w *reactortest.World, server, client *reactortest.Process) {
			addr := server.Host().AddrPort(1)
			m := &messageSide{hello: []byte("hello")}
			e := server.Start(m, nil)
			_, err := e.Listen(addr, &reactor.ListenOptions{Handler: privateGreeter{m, []byte(private)}})
			require.NoError(t, err)
			var failed error
			h := &hooks{dialError: func(_ *stream.DialOptions, err error) { failed = err }}
			require.NoError(t, stream.Dial(client.Start(reactor.BaseHandler{}, nil), addr, h, nil))
			w.Until(time.Second, func() bool { return failed != nil && m.closed })
			require.ErrorIs(t, failed, stream.ErrVersion)
			found := "has 0 bytes, and not at least 40"
			switch {
			case private != "":
				found = "begins with 112"
			case server.Host() != client.Host():
				found = "begins with 0" // The wire path pads private data with zeros.
			}
			require.EqualError(t, failed, "dial "+addr.String()+": the peer does not speak version 1 of the rsocket protocol: its private data "+
				found+": a server of package reactor is dialed with reactor.Engine.Dial")
			require.True(t, m.open)
			require.ErrorIs(t, m.err, reactor.ErrPeerClosed)
		})
	}
}

// A privateGreeter is a messageSide that accepts with private data.
type privateGreeter struct {
	*messageSide
	private []byte
}

func (g privateGreeter) OnConnectRequest(req *reactor.ConnRequest) {
	_ = req.Accept(&reactor.AcceptOptions{PrivateData: g.private})
}
