//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

const testGrace = 10 * time.Second

// A world is a simulated network with a server on one host and a process for clients on
// another.
type world struct {
	*reactortest.World
	t       *testing.T
	server  *server
	engine  *reactor.Engine // of the server
	clients *reactor.Engine
	host    *reactortest.Host // of the server
	other   *reactortest.Host // of the clients
}

const testPort = 7471

// inWorld calls fn in a world. Afterwards it stops the server.
func inWorld(t *testing.T, limit, workers int, fn func(w *world)) {
	reactortest.Run(t, 1, func(t *testing.T, rw *reactortest.World) {
		w := &world{World: rw, t: t, server: newServer(limit, workers, testGrace), host: rw.Host("server"), other: rw.Host("client")}
		w.engine = w.host.Process("server").Start(w.server, w.server.config())
		w.clients = w.other.Process("clients").Start(reactor.BaseHandler{}, &reactor.Config{MaxMessage: maxMessage})
		_, err := w.engine.Listen(w.host.AddrPort(testPort), &reactor.ListenOptions{OwnRecvQueue: true})
		require.NoError(t, err)
		defer w.stop()
		fn(w)
	})
}

// stop stops the server, as run does after SIGTERM.
func (w *world) stop() {
	if w.server.tasks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testGrace+time.Second)
	defer cancel()
	require.NoError(w.t, w.engine.Shutdown(ctx))
	close(w.server.tasks)
	w.server.workers.Wait()
	w.server.tasks = nil
}

func (w *world) dial() *reactortest.Conn {
	return w.Dial(w.clients, w.host.AddrPort(testPort), nil)
}

// exchange sends a request and returns the next answer.
func exchange(t *testing.T, c *reactortest.Conn, number uint32, method uint8, body string) message {
	m, err := decode(c.Exchange(message{number, method, []byte(body)}.encode()))
	require.NoError(t, err)
	return m
}

// send sends requests with the numbers from first on.
func send(c *reactortest.Conn, n, first int, method uint8, body string) {
	for i := range n {
		c.Send(message{uint32(first + i), method, []byte(body)}.encode())
	}
}

// sendAll sends requests with the numbers from first on, in one turn of the loop, until n are sent
// or the send queue is full. It returns how many it has sent.
func (w *world) sendAll(c *reactortest.Conn, n, first int, method uint8, body string) (sent int) {
	w.On(c.Loop(), func() {
		for sent < n && c.Conn.Send(message{uint32(first + sent), method, []byte(body)}.encode(), nil) == nil {
			sent++
		}
	})
	return sent
}

// received returns the numbers of the answers that have arrived, of which none is a failure.
func received(t *testing.T, c *reactortest.Conn) (numbers []int) {
	for _, b := range c.Received {
		m, err := decode(b)
		require.NoError(t, err)
		require.EqualValues(t, done, m.kind, "%s", m.body)
		numbers = append(numbers, int(m.number))
	}
	return numbers
}

// upTo returns the numbers from first to last.
func upTo(first, last int) (numbers []int) {
	for i := first; i <= last; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// peerReason lets time pass until the server has closed the connection, and returns its reason.
func peerReason(t *testing.T, c *reactortest.Conn) reactor.CloseReason {
	closed, ok := errors.AsType[*reactor.CloseError](c.WantClose(reactor.ErrPeerClosed))
	require.True(t, ok)
	return closed.Peer
}

func TestMethods(t *testing.T) {
	inWorld(t, 1, 1, func(w *world) {
		c := w.dial()
		long := strings.Repeat("ɐ", (maxMessage-headerSize)/2) // 2 bytes, and as a capital letter 3
		for i, test := range []struct {
			method uint8
			body   string
			status uint8
			answer string
		}{
			{upper, "hello", done, "HELLO"},
			{upper, "", done, ""},
			{upper, long, failed, "the answer is too long"},
			{sum, "hello", done, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
			{wait, "0s", done, "waited 0s"},
			{wait, "1m", done, "waited 1m0s"},
			{wait, "1m1s", failed, "wait: the body must be a time of 0s to 1m0s"},
			{wait, "-1s", failed, "wait: the body must be a time of 0s to 1m0s"},
			{wait, "soon", failed, "wait: the body must be a time of 0s to 1m0s"},
			{3, "", failed, "there is no method 3"},
			{255, "", failed, "there is no method 255"},
		} {
			answer := exchange(t, c, uint32(i), test.method, test.body)
			require.Equal(t, message{uint32(i), test.status, []byte(test.answer)}, answer)
		}
	})
}

// TestOrder checks that an answer does not wait for that of an earlier request.
func TestOrder(t *testing.T) {
	inWorld(t, 1, 2, func(w *world) {
		c := w.dial()
		send(c, 1, 1, wait, "1s")
		send(c, 1, 2, wait, "1ms")
		send(c, 1, 3, upper, "x")
		send(c, 1, 4, sum, "x")
		w.Until(time.Minute, func() bool { return len(c.Received) == 4 })
		require.Equal(t, []int{3, 2, 4, 1}, received(t, c))
	})
}

// TestLimit checks that a client above the limit is told so, and that a client that has gone
// makes room.
func TestLimit(t *testing.T) {
	inWorld(t, 2, 1, func(w *world) {
		first := w.dial()
		w.dial()
		require.EqualError(t, w.refused(), `the server refuses: "the server has 2 clients, its limit"`)
		w.On(first.Loop(), func() { require.NoError(t, first.Close()) })
		first.WantClose(nil)
		w.Until(time.Second, func() bool { return w.server.clients.Load() == 1 })
		require.Equal(t, "X", string(exchange(t, w.dial(), 1, upper, "x").body))
		require.Error(t, w.refused())
	})
}

// refused dials with the client of the program, and returns why that has ended.
func (w *world) refused() error {
	cl := &client{missing: map[uint32]string{}, ended: make(chan error, 1)}
	require.NoError(w.t, w.clients.Dial(w.host.AddrPort(testPort), &reactor.DialOptions{Handler: cl}))
	w.Until(time.Minute, func() bool { return len(cl.ended) == 1 })
	return <-cl.ended
}

// TestLimitAfterFailedAccept checks that a client whose connection does not open makes room.
func TestLimitAfterFailedAccept(t *testing.T) {
	inWorld(t, 1, 1, func(w *world) {
		w.host.SetFaultsTo(w.other, reactortest.Faults{Loss: 1})
		require.NoError(t, w.clients.Dial(w.host.AddrPort(testPort), nil))
		w.Until(time.Minute, func() bool { return w.server.clients.Load() == 1 })
		w.Until(5*time.Minute, func() bool { return w.server.clients.Load() == 0 })
		w.host.SetFaultsTo(w.other, reactortest.Faults{})
		w.dial()
	})
}

// TestStop checks that a server that stops answers every request that it has, takes no more
// of them, and says why it closes the connections.
func TestStop(t *testing.T) {
	inWorld(t, 4, 8, func(w *world) {
		idle, busy, greedy := w.dial(), w.dial(), w.dial()
		send(busy, 3, 1, wait, "1s")
		send(greedy, maxRequests+4, 1, wait, "2s") // The last 4 wait at the client.
		w.For(time.Millisecond)
		begin := w.Now()
		w.engine.Stop()
		w.For(time.Millisecond)
		send(busy, 1, 4, upper, "late")
		require.Error(t, w.refused())
		w.stop()
		require.Less(t, w.Now()-begin, 7*time.Second) // 35 s of work for 8 workers
		for _, c := range []*reactortest.Conn{idle, busy, greedy} {
			require.Equal(t, reactor.CloseReason{Kind: reactor.CloseShutdown, Code: stopping, Text: "the server stops"}, peerReason(t, c))
		}
		require.Empty(t, received(t, idle))
		require.ElementsMatch(t, upTo(1, 3), received(t, busy))
		require.ElementsMatch(t, upTo(1, maxRequests), received(t, greedy))
	})
}

// TestSlowClient checks that a client that reads no answers gets no more of the server's
// memory, and gets all answers when it reads them, also from a server that stops.
func TestSlowClient(t *testing.T) {
	for name, stops := range map[string]bool{"goes on": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 4, func(w *world) {
				c := w.dial()
				w.On(c.Loop(), func() { require.NoError(t, c.PauseRecv()) })
				sent := 0
				for sent < 1000 { // until the server takes no more
					n := w.sendAll(c, maxRequests, sent+1, upper, "")
					if w.For(50 * time.Millisecond); n == 0 {
						break
					}
					sent += n
				}
				require.Less(t, sent, 1000)
				require.Greater(t, sent, maxRequests)
				if stops {
					w.engine.Stop()
					sent = int(w.engine.Stats().Messages)
				}
				w.On(c.Loop(), c.ResumeRecv)
				w.Until(time.Minute, func() bool { return len(c.Received) == sent })
				require.Equal(t, upTo(1, sent), received(t, c))
			})
		})
	}
}

// TestGrace checks that a server that stops does not wait for a request that takes too long.
func TestGrace(t *testing.T) {
	inWorld(t, 1, 1, func(w *world) {
		c := w.dial()
		send(c, 1, 1, wait, "1m")
		w.For(time.Millisecond)
		begin := w.Now()
		w.stop()
		require.InDelta(t, testGrace, w.Now()-begin, float64(time.Second))
		require.Equal(t, reactor.CloseReason{Kind: reactor.CloseShutdown}, peerReason(t, c))
		require.Empty(t, c.Received)
	})
}

// TestMaxRequests checks that a client that sends more requests than it may has to wait, and
// that those that have arrived cost nothing when it disconnects.
func TestMaxRequests(t *testing.T) {
	inWorld(t, 2, 1, func(w *world) {
		send(w.dial(), 1, 1, wait, "1m") // The worker is busy.
		c := w.dial()
		require.Equal(t, 2*maxRequests, w.sendAll(c, 2*maxRequests, 1, wait, "1ms"))
		w.For(time.Second)
		require.Len(t, w.server.tasks, maxRequests)
		w.On(c.Loop(), func() { require.NoError(t, c.Abort(nil)) })
		w.Until(time.Second, func() bool { return w.server.clients.Load() == 1 })
		require.Len(t, w.server.tasks, maxRequests)
		w.For(time.Minute)
		require.Empty(t, w.server.tasks)

		c = w.dial()
		send(c, 3*maxRequests, 1, wait, "1ms")
		w.Until(time.Minute, func() bool { return len(c.Received) == 3*maxRequests })
		require.Equal(t, upTo(1, 3*maxRequests), received(t, c))
	})
}

// TestFullQueue checks that the loop does not block if requests of clients that have gone
// fill the queue.
func TestFullQueue(t *testing.T) {
	inWorld(t, 1, 0, func(w *world) {
		c := w.dial()
		send(c, maxRequests, 1, sum, "")
		w.Settle()
		w.On(c.Loop(), func() { require.NoError(t, c.Abort(nil)) })
		w.Until(time.Second, func() bool { return w.server.clients.Load() == 0 })
		answer := exchange(t, w.dial(), 7, sum, "")
		require.Equal(t, message{7, failed, []byte("the server has too many requests")}, answer)
	})
}

// TestBadRequest checks that a client is told why its connection ends.
func TestBadRequest(t *testing.T) {
	inWorld(t, 1, 1, func(w *world) {
		for _, size := range []int{0, 1, headerSize - 1} {
			c := w.dial()
			c.Send(make([]byte, size))
			text := fmt.Sprintf("message of %d bytes: the header has 5", size)
			require.Equal(t, reactor.CloseReason{Kind: reactor.CloseNormal, Code: badRequest, Text: text}, peerReason(t, c))
		}
	})
}

// A liar is a server that sends one message to each client.
type liar struct {
	reactor.BaseHandler
	message []byte
}

func (l liar) OnOpen(c *reactor.Conn) { _ = c.Send(l.message, nil) }

// TestBadAnswer checks that the client ends if an answer is not one to its requests.
func TestBadAnswer(t *testing.T) {
	inWorld(t, 1, 1, func(w *world) {
		for i, bad := range [][]byte{
			nil, make([]byte, headerSize-1),
			message{1, failed + 1, nil}.encode(),
			binary.LittleEndian.AppendUint32(nil, 1),
			message{99, done, nil}.encode(),
		} {
			port := uint16(testPort + 1 + i)
			_, err := w.engine.Listen(w.host.AddrPort(port), &reactor.ListenOptions{Handler: liar{message: bad}})
			require.NoError(t, err)
			cl := &client{missing: map[uint32]string{}, ended: make(chan error, 1)}
			require.NoError(t, w.clients.Dial(w.host.AddrPort(port), &reactor.DialOptions{Handler: cl}))
			w.Until(time.Minute, func() bool { return len(cl.ended) == 1 })
			require.EqualError(t, <-cl.ended, "the server has sent something that is not an answer")
		}
	})
}
