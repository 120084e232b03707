//go:build linux

package reactortest_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

type echo struct{ reactor.BaseHandler }

func (echo) OnMessage(c *reactor.Conn, m reactor.Message) {
	if err := c.Send(m.Data(), nil); err != nil {
		panic(err)
	}
}

type client struct {
	reactor.BaseHandler
	got    []string
	opened bool
	closed error
	ended  bool
}

func (c *client) OnOpen(conn *reactor.Conn) {
	c.opened = true
	for i := range 10 {
		if err := conn.Send([]byte(fmt.Sprint("message ", i)), nil); err != nil {
			panic(err)
		}
	}
}
func (c *client) OnMessage(_ *reactor.Conn, m reactor.Message) {
	c.got = append(c.got, string(m.Data()))
}
func (c *client) OnClose(_ *reactor.Conn, err error) { c.closed, c.ended = err, true }

func run(t *testing.T, seed uint64, hosts int) (digest uint64) {
	reactortest.Run(t, seed, func(t *testing.T, w *reactortest.World) {
		w.SetFaults(reactortest.Faults{Loss: 0.05, Delay: 10 * time.Microsecond, Reorder: 0.1, Jitter: 50 * time.Microsecond})
		sh := w.Host("server")
		ch := sh
		if hosts > 1 {
			ch = w.Host("client")
		}
		sp, cp := sh.Process("server"), ch.Process("client")
		server := sp.Start(echo{}, nil)
		at := sh.AddrPort(7471)
		_, err := server.Listen(at, nil)
		require.NoError(t, err)
		h := new(client)
		e := cp.Start(h, nil)
		require.NoError(t, e.Dial(at, nil))
		w.Until(time.Minute, func() bool { return len(h.got) == 10 })
		digest = w.Digest()
		t.Log(w.Now(), h.got[9], digest)
	})
	return digest
}

func TestEcho(t *testing.T) {
	for seed := range uint64(3) {
		require.Equal(t, run(t, seed, 2), run(t, seed, 2))
		require.Equal(t, run(t, seed, 1), run(t, seed, 1))
	}
}

// A process that was killed closes its connections as in reality: on the local path its
// sockets are closed at once, and on the wire path its peer hears nothing more.
func TestKill(t *testing.T) {
	for _, c := range []struct {
		hosts    int
		from, to time.Duration
	}{{1, 0, time.Millisecond}, {2, time.Second, 45 * time.Second}} {
		t.Run(fmt.Sprint(c.hosts), func(t *testing.T) {
			reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
				sh := w.Host("server")
				ch := sh
				if c.hosts > 1 {
					ch = w.Host("client")
				}
				sp, cp := sh.Process("server"), ch.Process("client")
				at := sh.AddrPort(7471)
				listen := func(p *reactortest.Process) {
					_, err := p.Start(echo{}, nil).Listen(at, nil)
					require.NoError(t, err)
				}
				listen(sp)
				h := new(client)
				e := cp.Start(h, nil)
				require.NoError(t, e.Dial(at, nil))
				w.Until(time.Minute, func() bool { return len(h.got) == 10 })
				killed := w.Now()
				sp.Kill()
				w.Until(time.Minute, func() bool { return h.ended })
				t.Log(w.Now()-killed, h.closed)
				require.Error(t, h.closed)
				require.GreaterOrEqual(t, w.Now()-killed, c.from)
				require.LessOrEqual(t, w.Now()-killed, c.to)

				listen(sh.Process("server2"))
				require.NoError(t, e.Dial(at, nil))
				w.Until(time.Minute, func() bool { return len(h.got) == 20 })
			})
		})
	}
}

// The helpers of a test work on both paths.
func TestHelpers(t *testing.T) {
	for hosts := range 2 {
		reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
			server := w.Host("server")
			client := server
			if hosts > 0 {
				client = w.Host("client")
			}
			p := server.Process("server")
			_, err := p.Start(echo{}, nil).Listen(server.AddrPort(1), nil)
			require.NoError(t, err)
			c := w.Dial(client.Process("client").Start(reactor.BaseHandler{}, nil), server.AddrPort(1), nil)
			for range 100 {
				require.Equal(t, "hello", string(c.Exchange([]byte("hello"))))
			}
			p.Kill()
			c.WantClose([]error{verbs.ErrPeerGone, reactor.ErrKeepalive}[hosts])
		})
	}
}

// A device that fails ends the connections of its process, and the peers hear of it.
func TestFailDevice(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		server, client := w.Host("server"), w.Host("client")
		p := server.Process("server")
		_, err := p.Start(echo{}, nil).Listen(server.AddrPort(1), nil)
		require.NoError(t, err)
		dialing := client.Process("client")
		e := dialing.Start(reactor.BaseHandler{}, nil)
		c := w.Dial(e, server.AddrPort(1), nil)
		c.Exchange([]byte("hello"))
		dialing.FailDevice(nil)
		w.For(time.Minute)
		var failed *verbs.AsyncError
		closed, err := c.Closed()
		require.True(t, closed)
		require.ErrorAs(t, err, &failed)
	})
}

// A process without memory or descriptors loses what needs them, and goes on afterwards.
func TestNoMemoryNoDescriptors(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		host := w.Host("host")
		p := host.Process("server")
		_, err := p.Start(echo{}, nil).Listen(host.AddrPort(1), nil)
		require.NoError(t, err)
		e := host.Process("client").Start(reactor.BaseHandler{}, nil)
		for _, set := range []func(bool){p.SetNoMemory, p.SetNoDescriptors} {
			set(true)
			failed := make(chan error, 1)
			require.NoError(t, e.Dial(host.AddrPort(1), &reactor.DialOptions{Handler: dialErrors{errors: failed}}))
			w.Until(time.Minute, func() bool { return len(failed) > 0 })
			t.Log(<-failed)
			set(false)
			w.For(time.Second) // The server remembers that it had no room.
			require.Equal(t, "hello", string(w.Dial(e, host.AddrPort(1), nil).Exchange([]byte("hello"))))
		}
	})
}

type dialErrors struct {
	reactor.BaseHandler
	errors chan error
}

func (d dialErrors) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	d.errors <- err
}

// Packets that find a full socket are lost, and sent again.
func TestReceiveLimit(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		server, client := w.Host("server"), w.Host("client")
		p := server.Process("server")
		_, err := p.Start(echo{}, nil).Listen(server.AddrPort(1), nil)
		require.NoError(t, err)
		c := w.Dial(client.Process("client").Start(reactor.BaseHandler{}, nil), server.AddrPort(1), nil)
		p.SetReceiveLimit(0)
		c.Send([]byte("hello"))
		w.For(time.Second)
		require.Empty(t, c.Received)
		p.SetReceiveLimit(1)
		w.Until(time.Minute, func() bool { return len(c.Received) == 1 })
	})
}

// workers is a handler that decides and answers on goroutines of its own.
type workers struct{ reactor.BaseHandler }

func (workers) OnConnectRequest(req *reactor.ConnRequest) {
	go func() {
		time.Sleep(time.Second)
		_ = req.Accept(nil)
	}()
}

func (workers) OnMessage(c *reactor.Conn, m reactor.Message) {
	question := string(m.Data())
	go func() {
		time.Sleep(time.Duration(len(question)) * time.Second)
		_ = c.Loop().Post(func() { _ = c.Send([]byte("answer to "+question), nil) })
	}()
}

func TestWorkers(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		server := w.Host("server")
		_, err := server.Process("server").Start(workers{}, nil).Listen(server.AddrPort(1), nil)
		require.NoError(t, err)
		c := w.Dial(w.Host("client").Process("client").Start(reactor.BaseHandler{}, nil), server.AddrPort(1), nil)
		require.InDelta(t, time.Second, w.Now(), float64(10*time.Millisecond))
		require.Equal(t, "answer to long", string(c.Exchange([]byte("long"))))
		require.InDelta(t, 5*time.Second, w.Now(), float64(10*time.Millisecond))
	})
}
