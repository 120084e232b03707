//go:build linux

package reactor_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// stopHooks is a hooks with a function for OnStop.
type stopHooks struct {
	hooks
	stop func(*reactor.Conn)
}

func (h *stopHooks) OnStop(c *reactor.Conn) { h.stop(c) }

// TestOnStop checks that a handler can send a last message when the engine stops, in
// OnStop or later, and that the engine closes connections that the handler does not
// close.
func TestOnStop(t *testing.T) {
	const stopTimeout = reactor.SilentLimit / 2
	goodbye := func(c *reactor.Conn) {
		require.NoError(t, c.Send([]byte("goodbye"), nil))
		require.NoError(t, c.Close())
	}
	tests := []struct {
		stop    func(*reactor.Conn)
		message string        // what the peer gets
		took    time.Duration // time from Stop to OnClose
	}{
		{goodbye, "goodbye", 0},
		{func(c *reactor.Conn) { c.Loop().After(stopTimeout/2, func() { goodbye(c) }) }, "goodbye", stopTimeout / 2},
		{func(*reactor.Conn) {}, "", stopTimeout},
	}
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		h := w.Host("host")
		server := h.Process("server").Start(&hooks{}, quiet(&reactor.Config{Limits: reactor.Limits{StopTimeout: stopTimeout}}))
		client := h.Process("client").Start(&hooks{}, quiet(nil))
		var conns []*reactortest.Conn
		closed := make([]time.Duration, len(tests))
		for i, test := range tests {
			handler := &stopHooks{hooks: hooks{close: func(_ *reactor.Conn, err error) {
				require.NoError(t, err)
				closed[i] = w.Now()
			}}, stop: test.stop}
			_, err := server.Listen(h.AddrPort(uint16(i+1)), &reactor.ListenOptions{Handler: handler})
			require.NoError(t, err)
			conns = append(conns, w.Dial(client, h.AddrPort(uint16(i+1)), nil))
		}
		w.For(time.Millisecond) // Then the server's connections are open, too.
		begin := w.Now()
		shutdown(t, server)
		for i, test := range tests {
			conns[i].WantClose(reactor.ErrPeerClosed)
			require.Equal(t, test.message, string(bytes.Join(conns[i].Received, nil)))
			requireTook(t, test.took, closed[i]-begin)
		}
	})
}

// TestDrainingExample checks the server of the example of OnStop with several connections on
// two loops, each with more questions than its send queue has room for answers. All questions
// that were asked before the shutdown get an answer.
func TestDrainingExample(t *testing.T) {
	const conns, questions = 4, 100
	var begun, answers atomic.Int64
	finish := make(chan struct{})
	server := start(t, draining{compute: func(question string) string {
		begun.Add(1)
		<-finish
		return question
	}}, &reactor.Config{NumLoops: 2})
	addr, client, ended := listen(t, server), start(t, &hooks{}, nil), make(chan error, conns)
	for range conns {
		left := questions
		ask := func(c *reactor.Conn) {
			for ; left > 0 && c.Send([]byte("why?"), nil) == nil; left-- {
			}
		}
		require.NoError(t, client.Dial(addr, &reactor.DialOptions{Handler: &hooks{
			open: ask, writable: ask,
			message: func(*reactor.Conn, reactor.Message) { answers.Add(1) },
			close:   func(_ *reactor.Conn, err error) { ended <- err },
		}}))
	}
	await(t, func() bool { return begun.Load() == conns*questions })
	server.Stop()
	close(finish)
	for range conns {
		require.ErrorContains(t, receive(t, ended), "maintenance")
	}
	require.EqualValues(t, conns*questions, answers.Load())
}
