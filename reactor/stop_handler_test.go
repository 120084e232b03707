package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// stopHooks is a hooks that is a StopHandler.
type stopHooks struct {
	hooks
	stop func(*reactor.Conn)
}

func (h *stopHooks) OnStop(c *reactor.Conn) { h.stop(c) }

// TestOnStop checks that a StopHandler can send a last message when the engine stops, in
// OnStop or later, and that the engine closes connections that the handler does not
// close.
func TestOnStop(t *testing.T) {
	for name, test := range map[string]struct {
		stop    func(*reactor.Conn)
		message string // what the peer gets
	}{
		"in OnStop": {func(c *reactor.Conn) {
			require.NoError(t, c.Send([]byte("goodbye")))
			require.NoError(t, c.Close())
		}, "goodbye"},
		"later": {func(c *reactor.Conn) {
			c.Loop().After(time.Millisecond, func() {
				require.NoError(t, c.Send([]byte("goodbye")))
				require.NoError(t, c.Close())
			})
		}, "goodbye"},
		"never": {func(*reactor.Conn) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			opened, closed, got := false, 0, ""
			onClose := func(*reactor.Conn, error) { closed++ }
			h := &stopHooks{hooks{close: func(_ *reactor.Conn, err error) {
				require.NoError(t, err)
				closed++
			}}, test.stop}
			stopping := newLoop(t, h, &reactor.Config{DrainTimeout: 50 * time.Millisecond})
			ln, err := stopping.Engine().Listen(loopback, nil)
			require.NoError(t, err)
			peer := newLoop(t, &hooks{
				open:    func(*reactor.Conn) { opened = true },
				message: func(_ *reactor.Conn, msg reactor.Message) { got = string(msg.Data()) },
				close:   onClose,
			}, nil)
			require.NoError(t, peer.Dial(ln.Addr(), nil))
			drive(t, func() bool { return opened && stopping.Conns() == 1 }, stopping, peer)
			drive(t, func() bool { return stopping.Stats().Opened == 1 }, stopping, peer)
			stopping.Engine().Stop()
			drive(t, func() bool { return closed == 2 }, stopping, peer)
			require.Equal(t, test.message, got)
		})
	}
}
