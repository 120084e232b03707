package gnetrdma_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// inLoop opens a connection to a server, and calls test in OnTraffic when the bytes of
// the message have arrived. A part of them is left from an earlier call of OnTraffic. The
// function test runs on the loop, so it must not end its goroutine with package require.
func inLoop(t *testing.T, message string, test func(c gnet.Conn)) {
	first, done := make(chan struct{}), make(chan struct{})
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		if c.InboundBuffered() < len(message) {
			close(first)
			return gnet.None
		}
		defer close(done)
		test(c)
		_, _ = c.Discard(-1)
		return gnet.None
	}}, gnetrdma.Config{}, nil)
	c := s.dial()
	_, err := io.WriteString(c, message[:len(message)/2])
	require.NoError(t, err)
	<-first
	_, err = io.WriteString(c, message[len(message)/2:])
	require.NoError(t, err)
	<-done
}

// TestReading checks the methods that read, when a part of the bytes is left from an
// earlier call of OnTraffic.
func TestReading(t *testing.T) {
	inLoop(t, "0123456789", func(c gnet.Conn) {
		b, err := c.Peek(11)
		assert.ErrorIs(t, err, io.ErrShortBuffer)
		assert.Nil(t, b)
		b, err = c.Peek(3)
		assert.NoError(t, err)
		assert.Equal(t, "012", string(b))
		b, err = c.Peek(8)
		assert.NoError(t, err)
		assert.Equal(t, "01234567", string(b))
		b, err = c.Peek(-1)
		assert.NoError(t, err)
		assert.Equal(t, "0123456789", string(b))
		n, err := c.Discard(1)
		assert.NoError(t, err)
		assert.Equal(t, 1, n)
		b, err = c.Next(2)
		assert.NoError(t, err)
		assert.Equal(t, "12", string(b))
		_, err = c.Next(8)
		assert.ErrorIs(t, err, io.ErrShortBuffer)
		p := make([]byte, 4)
		n, err = c.Read(p)
		assert.NoError(t, err)
		assert.Equal(t, "3456", string(p[:n]))
		assert.Equal(t, 3, c.InboundBuffered())
		var rest bytes.Buffer
		m, err := c.WriteTo(&rest)
		assert.NoError(t, err)
		assert.EqualValues(t, 3, m)
		assert.Equal(t, "789", rest.String())
		n, err = c.Read(p)
		assert.Zero(t, n)
		assert.ErrorIs(t, err, io.ErrShortBuffer)
	})
	inLoop(t, "0123456789", func(c gnet.Conn) {
		n, err := c.Discard(7)
		assert.NoError(t, err)
		assert.Equal(t, 7, n)
		b, err := c.Next(-1)
		assert.NoError(t, err)
		assert.Equal(t, "789", string(b))
		n, err = c.Discard(5)
		assert.NoError(t, err)
		assert.Zero(t, n)
	})
}

// TestSocketMethods checks the methods of sockets that a connection does not have.
func TestSocketMethods(t *testing.T) {
	inLoop(t, "xx", func(c gnet.Conn) {
		assert.Equal(t, -1, c.Fd())
		fd, err := c.Dup()
		assert.Equal(t, -1, fd)
		_, errSendTo := c.SendTo(nil, nil)
		for _, err := range []error{
			err, errSendTo, c.SetReadBuffer(1), c.SetWriteBuffer(1), c.SetLinger(1), c.SetNoDelay(false),
			c.SetKeepAlivePeriod(time.Second), c.SetKeepAlive(true, time.Second, time.Second, 1),
		} {
			assert.ErrorIs(t, err, gneterrors.ErrUnsupportedOp)
		}
		assert.NoError(t, c.SetNoDelay(true))
		assert.Equal(t, "rdma", c.LocalAddr().Network())
		assert.IsType(t, stream.Addr{}, c.RemoteAddr())
	})
}

// TestWriting checks that Write, Writev, ReadFrom, AsyncWrite and AsyncWritev send in the
// order of the calls, with more bytes than the peer takes at once, and that a Close
// behind them loses nothing.
func TestWriting(t *testing.T) {
	const size = 3 << 20
	part := func(b byte) []byte { return bytes.Repeat([]byte{b}, size) }
	calls := make(chan error, 3)
	closed := make(chan error, 1)
	s := run(t, &hooks{
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			done := func(_ gnet.Conn, err error) error {
				calls <- err
				return nil
			}
			go func() {
				_ = c.AsyncWrite(part('d'), done)
				_ = c.AsyncWritev([][]byte{part('e'), []byte("f")}, done)
				_ = c.CloseWithCallback(done)
			}()
			n, err := c.Writev([][]byte{[]byte("a"), part('b')})
			assert.NoError(t, err)
			assert.Equal(t, 1+size, n)
			m, err := c.ReadFrom(strings.NewReader("c"))
			assert.NoError(t, err)
			assert.EqualValues(t, 1, m)
			assert.NoError(t, c.Flush())
			assert.NotZero(t, c.OutboundBuffered())
			return nil, gnet.None
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			closed <- err
			return gnet.None
		},
	}, gnetrdma.Config{Reactor: reactor.Config{Limits: reactor.Limits{DrainTimeout: time.Minute}}}, nil)
	c := s.dial()
	for range 3 {
		require.NoError(t, <-calls)
	}
	require.NoError(t, <-closed)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	want := bytes.Join([][]byte{[]byte("a"), part('b'), []byte("c"), part('d'), part('e'), []byte("f")}, nil)
	require.True(t, bytes.Equal(want, got), "got %d bytes, want %d", len(got), len(want))
}

// TestPeerClose checks OnClose for a peer that has closed the connection.
func TestPeerClose(t *testing.T) {
	closed := make(chan error, 1)
	s := run(t, &hooks{close: func(_ gnet.Conn, err error) gnet.Action {
		closed <- err
		return gnet.None
	}}, gnetrdma.Config{Reactor: reactor.Config{Limits: reactor.Limits{DrainTimeout: time.Millisecond}}}, nil)
	c := s.dial()
	require.NoError(t, c.Close())
	require.Equal(t, io.EOF, <-closed)
}

// TestReset checks OnClose for a peer whose connection has ended without the messages of
// the protocol that end a stream.
func TestReset(t *testing.T) {
	closed := make(chan error, 1)
	s := run(t, &hooks{close: func(_ gnet.Conn, err error) gnet.Action {
		closed <- err
		return gnet.None
	}}, gnetrdma.Config{}, nil)
	dialRaw(t, s.addr)()
	err := <-closed
	var reset *stream.ResetError
	require.ErrorAs(t, err, &reset)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// TestEventLoop checks the methods of gnet.EventLoop.
func TestEventLoop(t *testing.T) {
	ran := make(chan string, 4)
	type key struct{}
	first := true
	s := run(t, &hooks{
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			l := c.EventLoop()
			if c.Context() != nil { // the connection that Register has opened
				ran <- "registered"
				return nil, gnet.Close
			}
			if !first { // the other end of that connection
				return nil, gnet.None
			}
			first = false
			task := func(name string) gnet.Runnable {
				return gnet.RunnableFunc(func(ctx context.Context) error {
					ran <- name + ctx.Value(key{}).(string)
					return nil
				})
			}
			ctx := context.WithValue(context.Background(), key{}, "!")
			assert.NoError(t, l.Schedule(ctx, task("scheduled"), time.Millisecond))
			assert.NoError(t, l.Execute(ctx, task("executed")))
			results, err := l.Register(gnet.NewContext(ctx, "context"), c.LocalAddr())
			assert.NoError(t, err)
			go func() {
				result := <-results
				assert.NoError(t, result.Err)
				ran <- "result"
			}()
			_, err = l.Register(ctx, &net.UDPAddr{})
			assert.ErrorIs(t, err, gneterrors.ErrUnsupportedProtocol)
			_, err = l.Enroll(ctx, &net.TCPConn{})
			assert.ErrorIs(t, err, gneterrors.ErrUnsupportedOp)
			assert.ErrorIs(t, l.Schedule(ctx, nil, time.Hour), gneterrors.ErrNilRunnable)
			return nil, gnet.None
		},
	}, gnetrdma.Config{}, nil)
	s.dial()
	got := map[string]bool{}
	for range 4 {
		got[<-ran] = true
	}
	require.Equal(t, map[string]bool{"executed!": true, "scheduled!": true, "registered": true, "result": true}, got)
}

// TestTaskBehindDial checks that a task runs although Config.Limits.MaxPosted other functions
// already wait for the loop. The calls of Register are such functions.
func TestTaskBehindDial(t *testing.T) {
	ran := make(chan struct{})
	s := run(t, &hooks{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		l := c.EventLoop()
		_, err := l.Register(context.Background(), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
		assert.NoError(t, err)
		assert.NoError(t, l.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
			close(ran)
			return nil
		})))
		return nil, gnet.None
	}}, gnetrdma.Config{Reactor: reactor.Config{Limits: reactor.Limits{MaxPosted: 1}}}, nil)
	s.dial()
	<-ran
}

// TestAfterClose checks the methods of a connection and of its loop after OnClose, and
// after the end of the engine.
func TestAfterClose(t *testing.T) {
	closed := make(chan gnet.Conn, 1)
	s := run(t, &hooks{
		open: func(c gnet.Conn) ([]byte, gnet.Action) { return []byte("last words"), gnet.Close },
		close: func(c gnet.Conn, _ error) gnet.Action {
			assert.NotNil(t, c.RemoteAddr())
			n, err := c.Write([]byte(", and more"))
			assert.NoError(t, err)
			assert.Equal(t, 10, n)
			closed <- c
			return gnet.None
		},
	}, gnetrdma.Config{}, nil)
	peer := s.dial()
	got, err := io.ReadAll(peer)
	require.NoError(t, err)
	require.Equal(t, "last words, and more", string(got))
	c := <-closed
	result := make(chan error, 3)
	callback := func(_ gnet.Conn, err error) error {
		result <- err
		return nil
	}
	require.NoError(t, c.AsyncWrite([]byte("too late"), callback))
	require.ErrorIs(t, <-result, net.ErrClosed)
	require.NoError(t, c.Wake(callback))
	require.NoError(t, <-result)
	require.NoError(t, c.CloseWithCallback(callback))
	require.NoError(t, <-result)
	s.stop()
	require.ErrorIs(t, c.AsyncWrite(nil, callback), gneterrors.ErrEngineInShutdown)
	require.ErrorIs(t, c.EventLoop().Execute(context.Background(), nil), gneterrors.ErrEngineInShutdown)
	require.Equal(t, gneterrors.ErrEngineInShutdown, c.SetDeadline(time.Now()), "the error has another text")
	require.Nil(t, c.RemoteAddr())
	require.Nil(t, c.LocalAddr())
	require.Nil(t, c.Context())
	_, err = c.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, c.Flush(), net.ErrClosed)
}

// TestAllocs checks that a round trip of a message allocates nothing, on either side.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := run(t, &hooks{traffic: echo}, gnetrdma.Config{}, nil).dial()
	b := make([]byte, 64)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, err := c.Write(b)
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}))
}
