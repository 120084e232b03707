package main

import (
	"bufio"
	"io"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A countingServer closes a channel when interruptAfter messages have arrived. The test
// then interrupts the client.
type countingServer struct {
	server
	seen    atomic.Int64
	reached chan struct{}
}

const interruptAfter = 1000

func (s *countingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	s.server.OnMessage(c, msg)
	if s.seen.Add(1) == interruptAfter {
		close(s.reached)
	}
}

// listen runs a server with the handler in this process.
func listen(t *testing.T, h reactor.Handler) (addr string) {
	opts, err := parse([]string{"-provider", "soft", "-listen", "127.0.0.1:0"}, t.Output())
	require.NoError(t, err)
	n, err := start(t.Context(), opts, h)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.shutdown()) })
	listener, err := n.engine.Listen(n.addr, nil)
	require.NoError(t, err)
	return listener.Addr().String()
}

// TestInterrupt checks that after Ctrl-C the client reports the results so far.
func TestInterrupt(t *testing.T) {
	for phase, flags := range map[string][]string{
		"ping-pong": {"-count", "1000000000"},
		"streaming": {"-count", "10", "-duration", "1h"},
	} {
		t.Run(phase, func(t *testing.T) {
			s := &countingServer{server: server{stderr: t.Output()}, reached: make(chan struct{})}
			client := program(t, append(flags, "-json", "-connect", listen(t, s))...)
			require.NoError(t, client.Start())
			<-s.reached
			require.NoError(t, client.Process.Signal(syscall.SIGINT))
			require.Equal(t, latency.ExitOK, client.exit(t), "%s", &client.stderr)
			r := client.report(t)
			require.True(t, r.Interrupted)
			require.Zero(t, r.Errors)
			require.GreaterOrEqual(t, r.Count+r.StreamMsgs, interruptAfter-1)
		})
	}
}

// TestInterruptWhileConnecting checks that Ctrl-C ends a connecting client without an
// error. The server never answers, because its private data is too long for Reject.
func TestInterruptWhileConnecting(t *testing.T) {
	said, stderr := io.Pipe()
	s := &server{reject: make([]byte, 200), stderr: stderr}
	client := program(t, "-connect", listen(t, s))
	require.NoError(t, client.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "private data 200")
	require.NoError(t, client.Process.Signal(syscall.SIGINT))
	require.Equal(t, latency.ExitOK, client.exit(t), "%s", &client.stderr)
	require.Empty(t, client.stderr.String())
	require.Equal(t, "\ninterrupted after 0 messages\n", client.stdout.String())
}

// A corruptingServer changes one byte of each echo.
type corruptingServer struct{ server }

func (s *corruptingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	msg.Data()[17] ^= 1
	s.server.OnMessage(c, msg)
}

func TestDamageIsReported(t *testing.T) {
	client := program(t, "-json", "-count", "10", "-duration", "0", "-connect", listen(t, &corruptingServer{server{stderr: t.Output()}}))
	require.Equal(t, latency.ExitFailed, client.exit(t))
	require.Equal(t, 10, client.report(t).Damaged)
	require.Contains(t, client.stderr.String(), "10 damaged")
}

// A closingServer closes the connection instead of sending an echo.
type closingServer struct{ server }

func (s *closingServer) OnMessage(c *reactor.Conn, _ reactor.Message) { c.Close() }

func TestLossIsReported(t *testing.T) {
	client := program(t, "-json", "-count", "10", "-connect", listen(t, &closingServer{server{stderr: t.Output()}}))
	require.Equal(t, latency.ExitFailed, client.exit(t))
	r := client.report(t)
	require.Equal(t, 1, r.Lost)
	require.Equal(t, 1, r.Failed)
	require.Contains(t, client.stderr.String(), reactor.ErrPeerClosed.Error())
}

// A lateServer handles each message after OnMessage has returned. Then Message.Keep
// returns nil.
type lateServer struct {
	server
	closed chan error
}

func (s *lateServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.Loop().Post(func() {
		b := c.UserData.(*backlog)
		for c.Send(nil, nil) == nil {
		}
		s.server.OnMessage(c, msg)
		if len(b.held) > 0 {
			b.held = nil
			c.Abort(nil)
		}
	})
}

func (s *lateServer) OnClose(c *reactor.Conn, err error) {
	s.server.OnClose(c, err)
	s.closed <- err
}

// TestNoMemoryToKeep checks that the server ends a connection if it can not keep a
// message.
func TestNoMemoryToKeep(t *testing.T) {
	s := &lateServer{server{stderr: t.Output()}, make(chan error, 1)}
	client := program(t, "-count", "1", "-connect", listen(t, s))
	require.Equal(t, latency.ExitFailed, client.exit(t))
	require.ErrorContains(t, <-s.closed, "no memory to keep the message")
}

// TestFill checks that messages with different numbers differ. In a long message, the
// first words must differ too.
func TestFill(t *testing.T) {
	for _, size := range []int{2, 8, 13, 64} {
		seen := map[string]bool{}
		for number := range uint64(1000) {
			msg := make([]byte, size)
			fill(msg, number)
			require.False(t, seen[string(msg)], "size %d, number %d", size, number)
			seen[string(msg)] = true
			if size > 16 {
				require.NotEqual(t, msg[:8], msg[8:16])
			}
		}
	}
}

// TestSessionCounts checks that a session counts wrong and missing echoes.
func TestSessionCounts(t *testing.T) {
	cl := &client{}
	cl.busy.Add(1)
	s := &session{client: cl, message: make([]byte, 16), sent: 3}

	right := make([]byte, 16)
	fill(right, 0)
	s.check(right)
	require.Zero(t, s.damaged)

	// The echo of message 0 arrives a second time.
	s.check(right)
	require.Equal(t, 1, s.damaged)
	require.False(t, s.ready)
	s.check(nil) // too short
	require.Equal(t, 2, s.damaged)
	require.True(t, s.ready, "the phase ends when all echoes have arrived")

	fill(right, 3)
	s.check(right) // an echo of message 3, which was not sent
	require.Equal(t, 3, s.damaged)
	require.Equal(t, 3, s.streamed)

	s.sent += 5
	s.OnClose(nil, nil)
	require.Equal(t, 5, s.lost)
	cl.busy.Wait() // The session has reported the end of the phase once.
}
