//go:build linux

package reactortest_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// The two examples of docs/testing.md.

// upper is a handler that answers with capital letters.
type upper struct{ reactor.BaseHandler }

func (upper) OnMessage(c *reactor.Conn, m reactor.Message) {
	answer := slices.Clone(m.Data())
	for i, b := range answer {
		if 'a' <= b && b <= 'z' {
			answer[i] = b - 'a' + 'A'
		}
	}
	if err := c.Send(answer, nil); err != nil {
		_ = c.Abort(err)
	}
}

func TestUpper(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		server, client := w.Host("server"), w.Host("client")
		_, err := server.Process("upper").Start(upper{}, nil).Listen(server.AddrPort(7471), nil)
		require.NoError(t, err)
		c := w.Dial(client.Process("test").Start(reactor.BaseHandler{}, nil), server.AddrPort(7471), nil)
		require.Equal(t, "HELLO", string(c.Exchange([]byte("hello"))))
		w.Cut(server, client)
		c.WantClose(reactor.ErrKeepalive)
	})
}

// A caller sends numbered requests to the first of its servers that answers. A request
// without an answer is sent again to the next server.
type caller struct {
	reactor.BaseHandler
	engine   *reactor.Engine
	servers  []netip.AddrPort
	current  int // index in servers
	conn     *reactor.Conn
	answered int
}

func (c *caller) dial() {
	// Dial fails only when the engine shuts down.
	_ = c.engine.Dial(c.servers[c.current], &reactor.DialOptions{Timeout: time.Second})
}

func (c *caller) next() {
	c.current = (c.current + 1) % len(c.servers)
	c.dial()
}

func (c *caller) call() {
	if c.conn.Send(fmt.Appendf(nil, "request %d", c.answered), nil) != nil {
		_ = c.conn.Abort(nil)
	}
	c.conn.SetTimeout(100 * time.Millisecond)
}

func (c *caller) OnOpen(conn *reactor.Conn) { c.conn = conn; c.call() }
func (c *caller) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	c.next()
}
func (c *caller) OnClose(_ *reactor.Conn, err error) { c.next() }

func (c *caller) OnMessage(_ *reactor.Conn, m reactor.Message) {
	if string(m.Data()) == fmt.Sprintf("REQUEST %d", c.answered) {
		c.answered++
	}
	c.call()
}

func TestFailover(t *testing.T) {
	reactortest.Seeds(t, 100, func(t *testing.T, w *reactortest.World) {
		w.SetFaults(reactortest.Faults{Loss: 0.01, Delay: 10 * time.Microsecond, Reorder: 0.1, Jitter: time.Millisecond})
		c := &caller{}
		var servers []*reactortest.Process
		for _, name := range []string{"first", "second"} {
			p := w.Host(name).Process("upper")
			_, err := p.Start(upper{}, nil).Listen(p.Host().AddrPort(7471), nil)
			require.NoError(t, err)
			servers, c.servers = append(servers, p), append(c.servers, p.Host().AddrPort(7471))
		}
		c.engine = w.Host("client").Process("caller").Start(c, nil)
		c.dial()
		w.For(time.Duration(w.Rand().IntN(20)) * time.Millisecond)
		servers[0].Kill()
		before := c.answered
		w.Until(3*time.Second, func() bool { return c.answered > before+10 })
	})
}
