package reactor_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A panicker is a handler that panics once in the callback with a given name.
type panicker struct {
	longHooks
	in    string
	stops int // number of calls of OnStop
}

const panicValue = "panic of a callback"

func (h *panicker) call(callback string) {
	if h.in == callback {
		h.in = ""
		panic(panicValue)
	}
}

func (h *panicker) OnStop(c *reactor.Conn) {
	h.stops++
	h.call("OnStop")
	_ = c.Close()
}

// newPanicker returns a panicker whose callbacks answer messages and accept requests, and the
// errors of its OnClose.
func newPanicker(t *testing.T) (h *panicker, ends *[]error) {
	h = &panicker{}
	h.long = func(_ *reactor.Conn, m *reactor.LongMessage) { h.call("OnLongMessage"); m.Parts() }
	h.part = func(*reactor.Conn, *reactor.LongMessage, reactor.Message) { h.call("OnPart") }
	h.request = func(req *reactor.ConnRequest) { h.call("OnConnectRequest"); require.NoError(t, req.Accept(nil)) }
	h.open = func(*reactor.Conn) { h.call("OnOpen") }
	h.message = func(c *reactor.Conn, m reactor.Message) { h.call("OnMessage"); _ = c.Send(m.Data(), nil) }
	h.completion = func(*reactor.Conn, reactor.Op, error) { h.call("OnCompletion") }
	h.writable = func(*reactor.Conn) { h.call("OnWritable") }
	h.dialError = func(*reactor.DialOptions, error) { h.call("OnDialError") }
	ends = new([]error)
	h.close = func(_ *reactor.Conn, err error) { *ends = append(*ends, err); h.call("OnClose") }
	return h, ends
}

// TestPanicInCallback checks that a loop goes on after a panic that the program has recovered
// from: the connection whose callback it was ends, and the other one loses nothing.
func TestPanicInCallback(t *testing.T) {
	send := func(t *testing.T, c *reactor.Conn, size int) {
		require.NoError(t, c.Send(make([]byte, size), &reactor.OpOptions{Notify: true}))
	}
	for name, test := range map[string]struct {
		cause func(t *testing.T, p *pair, h *panicker, first *reactor.Conn) // makes the callback run
		end   error                                                         // error of the server's OnClose, if it ends
	}{
		"OnMessage":     {func(t *testing.T, _ *pair, _ *panicker, c *reactor.Conn) { send(t, c, 100) }, reactor.ErrPanicked},
		"OnLongMessage": {func(t *testing.T, _ *pair, _ *panicker, c *reactor.Conn) { send(t, c, 100_000) }, reactor.ErrPanicked},
		"OnPart":        {func(t *testing.T, _ *pair, _ *panicker, c *reactor.Conn) { send(t, c, 100_000) }, reactor.ErrPanicked},
		"OnCompletion": {func(t *testing.T, p *pair, _ *panicker, _ *reactor.Conn) {
			send(t, p.accepted, 100)
			send(t, p.accepted, 1)
		}, reactor.ErrPanicked},
		"OnCompletion of a flush": {func(t *testing.T, p *pair, h *panicker, _ *reactor.Conn) {
			h.in = "OnCompletion"
			send(t, p.accepted, 100)
			send(t, p.accepted, 100)
			require.NoError(t, p.accepted.Abort(nil))
		}, reactor.ErrAborted},
		"OnWritable": {func(t *testing.T, p *pair, _ *panicker, _ *reactor.Conn) {
			for !errors.Is(p.accepted.Send(nil, nil), reactor.ErrWouldBlock) {
			}
		}, reactor.ErrPanicked},
		"OnClose": {func(t *testing.T, _ *pair, _ *panicker, c *reactor.Conn) { require.NoError(t, c.Close()) }, reactor.ErrPeerClosed},
		"OnOpen": {func(t *testing.T, p *pair, _ *panicker, _ *reactor.Conn) {
			require.NoError(t, p.client.Engine().Dial(p.dialed.Info().RemoteAddr, nil))
		}, nil},
		"OnConnectRequest": {func(t *testing.T, p *pair, _ *panicker, _ *reactor.Conn) {
			require.NoError(t, p.client.Engine().Dial(p.dialed.Info().RemoteAddr, nil))
		}, nil},
		"OnDialError": {func(t *testing.T, p *pair, _ *panicker, _ *reactor.Conn) {
			require.NoError(t, p.server.Engine().Dial(netip.MustParseAddrPort("127.0.0.1:1"), nil))
		}, nil},
		"a timer": {func(t *testing.T, p *pair, h *panicker, _ *reactor.Conn) {
			p.server.After(0, func() { h.call("a timer") })
		}, nil},
		"a posted function": {func(t *testing.T, p *pair, h *panicker, _ *reactor.Conn) {
			require.NoError(t, p.server.Post(func() { h.call("a posted function") }))
		}, nil},
		"a turn function": {func(t *testing.T, p *pair, h *panicker, _ *reactor.Conn) {
			p.server.SetTurnFunc(func() bool { h.call("a turn function"); return false })
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, ends := newPanicker(t)
			cfg := longConfig()
			cfg.Memory.SharedRecvBuffers = 16
			p, echoes := &pair{}, 0
			client := &hooks{message: func(*reactor.Conn, reactor.Message) { echoes++ }}
			watch(client, &p.dialed, new(error), new(int))
			watch(&h.hooks, &p.accepted, new(error), new(int))
			p.server, p.client = newLoop(t, h, cfg), newLoop(t, client, cfg)
			addr := listen(t, p.server.Engine())
			require.NoError(t, p.client.Engine().Dial(addr, nil))
			p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
			first, firstAccepted := p.dialed, p.accepted
			require.NoError(t, p.client.Engine().Dial(addr, nil))
			p.drive(t, func() bool { return p.dialed != first && p.accepted != firstAccepted })
			other := p.dialed
			p.accepted = firstAccepted

			later := false
			h.in = name
			test.cause(t, p, h, first)
			require.NoError(t, p.server.Post(func() { later = true }))
			for range 3 {
				send(t, other, 100)
			}
			panics := 0
			for h.in != "" {
				_, err := p.client.RunOnce(0)
				require.NoError(t, err)
				func() {
					defer func() {
						if r := recover(); r != nil {
							require.Equal(t, panicValue, r)
							panics++
						}
					}()
					_, _ = p.server.RunOnce(0)
				}()
			}
			require.Equal(t, 1, panics)
			p.server.SetTurnFunc(nil)
			p.drive(t, func() bool { return later && echoes >= 3 && (test.end == nil || len(*ends) == 1) })
			if test.end != nil {
				require.ErrorIs(t, (*ends)[0], test.end)
			}
			require.Equal(t, reactor.StateOpen, other.State())
			for echoes = 0; echoes < 40; { // more than there are shared buffers
				before := echoes
				send(t, other, 100)
				p.drive(t, func() bool { return echoes > before })
			}
		})
	}
}

// TestPanicInStop checks that a shutdown goes on after OnStop has panicked.
func TestPanicInStop(t *testing.T) {
	h := &panicker{in: "OnStop"}
	h.message = echo(t)
	p := &pair{}
	watch(&h.hooks, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	p.server, p.client = newLoop(t, h, nil), newLoop(t, &hooks{}, nil)
	addr := listen(t, p.server.Engine())
	for range 3 {
		require.NoError(t, p.client.Engine().Dial(addr, nil))
	}
	p.drive(t, func() bool { return p.server.Stats().Opened == 3 && p.client.Stats().Opened == 3 })
	p.server.Engine().Stop()
	require.PanicsWithValue(t, panicValue, func() {
		for {
			_, _ = p.server.RunOnce(0)
		}
	})
	for {
		_, _ = p.client.RunOnce(0)
		if _, err := p.server.RunOnce(0); errors.Is(err, reactor.ErrClosed) {
			break
		}
	}
	require.EqualValues(t, 3, p.server.Stats().Closed)
	require.Equal(t, 3, h.stops)
}

// TestPanicInEngine checks that a panic of a callback ends the program if an engine runs the
// loop, and that the trace of the panic has the callback.
func TestPanicInEngine(t *testing.T) {
	const variable = "RDMALOOP_TEST_PANIC"
	if os.Getenv(variable) != "" {
		require.NoError(t, start(t, &hooks{}, nil).Loop(0).Post(func() { panic(panicValue) }))
		time.Sleep(testTimeout)
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program, "-test.run", "^TestPanicInEngine$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "panic: "+panicValue)
	require.Contains(t, string(out), "reactor_test.TestPanicInEngine.func")
}

// TestPanicLosesNoBuffer checks that the buffer of a message whose OnMessage has panicked is
// used again.
func TestPanicLosesNoBuffer(t *testing.T) {
	const buffers = 4
	panics, messages := 0, 0
	client := &hooks{}
	server := newLoop(t, &hooks{message: func(*reactor.Conn, reactor.Message) {
		if panics++; panics <= 2*buffers {
			panic(panicValue)
		}
		messages++
	}}, &reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: buffers}})
	var opened *reactor.Conn
	client.open = func(c *reactor.Conn) { opened = c }
	loop := newLoop(t, client, nil)
	addr := listen(t, server.Engine())
	for messages == 0 {
		opened = nil
		require.NoError(t, loop.Engine().Dial(addr, nil))
		drive(t, func() bool { return opened != nil }, loop, server)
		require.NoError(t, opened.Send(make([]byte, 2000), nil))
		before := panics
		for deadline := time.Now().Add(testTimeout); panics == before; {
			require.True(t, time.Now().Before(deadline), "message %d has not arrived", panics+1)
			_, _ = loop.RunOnce(0)
			func() {
				defer func() { _ = recover() }()
				_, _ = server.RunOnce(0)
			}()
		}
	}
}
