//go:build linux

package reactor_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// slowNames returns the callbacks in the warnings of slow callbacks, with the address of the
// peer.
func (l *logged) slowNames(took time.Duration, loop string) (names []string) {
	record := fmt.Sprintf(`level=WARN msg="reactor: slow callback: (\w+)" took=%v[\w.]* loop=%q(?: remote=(\S+))?\n`, int(took.Seconds()), loop)
	for _, m := range regexp.MustCompile(record).FindAllStringSubmatch(l.String(), -1) {
		name := m[1]
		if m[2] != "" {
			name += " " + m[2]
		}
		names = append(names, name)
	}
	return names
}

// TestSlowCallbackIsNamed checks that a warning names each kind of callback that was slow, the
// loop and the peer.
func TestSlowCallbackIsNamed(t *testing.T) {
	const slow = 2 * time.Second
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var log logged
		h := w.Host("host")
		wait := func() { w.For(slow) }
		var accepted, dialed *reactor.Conn
		received, completed, closed := 0, 0, 0
		server := &hooks{
			request:    func(req *reactor.ConnRequest) { wait(); require.NoError(t, req.Accept(nil)) },
			open:       func(c *reactor.Conn) { wait(); accepted = c },
			message:    func(*reactor.Conn, reactor.Message) { wait(); received++ },
			completion: func(*reactor.Conn, reactor.Op, error) { wait(); completed++ },
			close:      func(*reactor.Conn, error) { wait(); closed++ },
		}
		e := h.Process("server").Start(server, log.config(*quiet(&reactor.Config{
			Limits:   reactor.Limits{SlowCallback: slow / 2},
			EachLoop: func(_ int, l *reactor.LoopConfig) { l.Name = "the loop" },
		})))
		l := e.Loop(0)
		_, err := e.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		client := h.Process("client").Start(&hooks{open: func(c *reactor.Conn) { dialed = c }}, quiet(nil))
		require.NoError(t, client.Dial(h.AddrPort(1), nil))
		until := func(cond func() bool) { w.Until(time.Minute, cond) }
		until(func() bool { return accepted != nil && dialed != nil })
		send := func(c *reactor.Conn, o *reactor.OpOptions) func() {
			return func() { require.NoError(t, c.Send(nil, o)) }
		}
		w.On(dialed.Loop(), send(dialed, nil))
		until(func() bool { return received == 1 })
		w.On(l, send(accepted, &reactor.OpOptions{Notify: true}))
		until(func() bool { return completed == 1 })

		w.On(l, wait)
		ran := 0
		slowly := func() { wait(); ran++ }
		require.NoError(t, accepted.Post(func(error) { slowly() }))
		until(func() bool { return ran == 1 })
		w.On(l, func() { l.After(0, slowly) })
		until(func() bool { return ran == 2 })
		w.On(l, func() { l.SetTurnFunc(func() bool { l.SetTurnFunc(nil); slowly(); return true }) })
		until(func() bool { return ran == 3 })
		var fds [2]int
		require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
		w.On(l, func() {
			require.NoError(t, l.Watch(fds[1], poller.Writable, func(poller.Readiness) {
				require.NoError(t, l.Unwatch(fds[1]))
				slowly()
			}))
		})
		until(func() bool { return ran == 4 })
		for _, fd := range fds {
			require.NoError(t, unix.Close(fd))
		}
		w.On(dialed.Loop(), func() { require.NoError(t, dialed.Close()) })
		until(func() bool { return closed == 1 })
		require.NoError(t, accepted.Post(func(err error) { require.ErrorIs(t, err, reactor.ErrClosed); slowly() }))
		until(func() bool { return ran == 5 })

		peer := " " + accepted.Info().RemoteAddr.String()
		want := []string{
			"OnConnectRequest", "OnOpen" + peer, "OnMessage" + peer, "OnCompletion" + peer,
			"Post", "Post" + peer, "After", "SetTurnFunc", "Watch", "OnClose" + peer, "Post",
		}
		require.Equal(t, want, log.slowNames(slow, "the loop"), log.String())
		shutdown(t, e)
		require.EqualValues(t, len(want), e.Stats().SlowCallbacks)
	})
}

// TestSlowCallbackWarningsAreLimited checks that many slow calls of one callback cause few
// warnings, and do not hide those of another one.
func TestSlowCallbackWarningsAreLimited(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var log logged
		e := w.Host("host").Process("process").Start(&hooks{}, log.config(*quiet(&reactor.Config{Limits: reactor.Limits{SlowCallback: time.Second}})))
		l := e.Loop(0)
		const calls = 12
		for range calls {
			w.On(l, func() { w.For(2 * time.Second) })
		}
		w.On(l, func() { l.After(0, func() { w.For(2 * time.Second) }) })
		w.For(time.Minute)
		names := log.slowNames(2*time.Second, "loop 0")
		require.Len(t, names, 10+1)
		require.Equal(t, "After", names[10])
		shutdown(t, e)
		require.EqualValues(t, calls+1, e.Stats().SlowCallbacks)
	})
}
