package gnetrdma_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// inLoop opens a connection to a server, and calls test in OnTraffic when the bytes of
// the message have arrived.
func inLoop(t *testing.T, message string, test func(c gnet.Conn)) {
	read := make(chan struct{}, 2)
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		defer func() { read <- struct{}{} }() // also if a check of the function test fails
		if c.InboundBuffered() < len(message) {
			return gnet.None
		}
		test(c)
		_, _ = c.Discard(-1)
		return gnet.None
	}}, gnetrdma.Config{}, nil)
	c := s.dial()
	// In two parts, so that the first is left from an earlier call of OnTraffic.
	for _, part := range []string{message[:len(message)/2], message[len(message)/2:]} {
		_, err := io.WriteString(c, part)
		require.NoError(t, err)
		<-read
	}
}

// TestReading checks the methods that read, when a part of the bytes is left from an
// earlier call of OnTraffic.
func TestReading(t *testing.T) {
	inLoop(t, "0123456789", func(c gnet.Conn) {
		b, err := c.Peek(11)
		require.ErrorIs(t, err, io.ErrShortBuffer)
		require.Nil(t, b)
		b, err = c.Peek(3)
		require.NoError(t, err)
		require.Equal(t, "012", string(b))
		b, err = c.Peek(8)
		require.NoError(t, err)
		require.Equal(t, "01234567", string(b))
		b, err = c.Peek(-1)
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(b))
		n, err := c.Discard(1)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		b, err = c.Next(2)
		require.NoError(t, err)
		require.Equal(t, "12", string(b))
		_, err = c.Next(8)
		require.ErrorIs(t, err, io.ErrShortBuffer)
		p := make([]byte, 4)
		n, err = c.Read(p)
		require.NoError(t, err)
		require.Equal(t, "3456", string(p[:n]))
		require.Equal(t, 3, c.InboundBuffered())
		var rest bytes.Buffer
		m, err := c.WriteTo(&rest)
		require.NoError(t, err)
		require.EqualValues(t, 3, m)
		require.Equal(t, "789", rest.String())
		n, err = c.Read(p)
		require.Zero(t, n)
		require.ErrorIs(t, err, io.ErrShortBuffer)
	})
	inLoop(t, "0123456789", func(c gnet.Conn) {
		n, err := c.Discard(7)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		b, err := c.Next(-1)
		require.NoError(t, err)
		require.Equal(t, "789", string(b))
		n, err = c.Discard(5)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// TestSocketMethods checks the methods of sockets that a connection does not have.
func TestSocketMethods(t *testing.T) {
	inLoop(t, "xx", func(c gnet.Conn) {
		require.Equal(t, -1, c.Fd())
		fd, err := c.Dup()
		require.Equal(t, -1, fd)
		_, errSendTo := c.SendTo(nil, nil)
		for _, err := range []error{
			err, errSendTo, c.SetReadBuffer(1), c.SetWriteBuffer(1), c.SetLinger(1), c.SetNoDelay(false),
			c.SetKeepAlivePeriod(time.Second), c.SetKeepAlive(true, time.Second, time.Second, 1),
		} {
			require.ErrorIs(t, err, gneterrors.ErrUnsupportedOp)
		}
		require.NoError(t, c.SetNoDelay(true))
		require.Equal(t, "rdma", c.LocalAddr().Network())
		require.IsType(t, stream.Addr{}, c.RemoteAddr())
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
			require.NoError(t, err)
			require.Equal(t, 1+size, n)
			m, err := c.ReadFrom(strings.NewReader("c"))
			require.NoError(t, err)
			require.EqualValues(t, 1, m)
			require.NoError(t, c.Flush())
			require.NotZero(t, c.OutboundBuffered())
			return nil, gnet.None
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			closed <- err
			return gnet.None
		},
	}, gnetrdma.Config{}, nil)
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

// TestReset checks that OnClose gets a *stream.ResetError if the peer has reset the
// stream, also if the handler writes all the time.
func TestReset(t *testing.T) {
	closed := make(chan error, 1)
	s := run(t, &hooks{
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			_ = c.Wake(nil)
			return []byte("hello"), gnet.None
		},
		traffic: func(c gnet.Conn) gnet.Action {
			_, _ = c.Write([]byte("x"))
			_ = c.Wake(nil)
			return gnet.None
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			closed <- err
			return gnet.None
		},
	}, gnetrdma.Config{MaxOutbound: 1 << 30}, nil)
	client := &resetClient{}
	device, err := soft.Open(&soft.Config{Vectors: 1})
	require.NoError(t, err)
	defer device.Close()
	loop, err := reactor.NewLoop(device, reactor.BaseHandler{}, nil)
	require.NoError(t, err)
	defer loop.Close()
	require.NoError(t, stream.Dial(loop.Engine(), netip.MustParseAddrPort(s.addr), client, nil))
	for len(closed) == 0 {
		_, err := loop.RunOnce(time.Millisecond)
		require.NoError(t, err)
	}
	var reset *stream.ResetError
	require.ErrorAs(t, <-closed, &reset)
}

// A resetClient resets its stream when the first bytes arrive.
type resetClient struct{ stream.BaseHandler }

func (resetClient) OnData(s *stream.Stream) { _ = s.Abort(nil) }

// TestWriteAfterReadFrom checks that Write sends the bytes of an earlier ReadFrom.
func TestWriteAfterReadFrom(t *testing.T) {
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		_, _ = c.Discard(-1)
		_, err := c.ReadFrom(strings.NewReader("header "))
		assert.NoError(t, err)
		_, err = io.WriteString(c, "body")
		assert.NoError(t, err)
		assert.Zero(t, c.OutboundBuffered())
		return gnet.None
	}}, gnetrdma.Config{}, nil)
	c := s.dial()
	_, err := io.WriteString(c, "go")
	require.NoError(t, err)
	b := make([]byte, len("header body"))
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, "header body", string(b))
}

// TestWriteToShort checks WriteTo with a Writer that takes only a part of the bytes, or
// reports more than there are.
func TestWriteToShort(t *testing.T) {
	inLoop(t, "0123456789", func(c gnet.Conn) {
		n, err := c.WriteTo(writerFunc(func([]byte) int { return 4 }))
		assert.ErrorIs(t, err, io.ErrShortWrite)
		assert.EqualValues(t, 4, n)
		n, err = c.WriteTo(writerFunc(func([]byte) int { return 100 }))
		assert.NoError(t, err)
		assert.EqualValues(t, 6, n)
		assert.Zero(t, c.InboundBuffered())
	})
}

// A writerFunc is an io.Writer whose Write returns what the function returns.
type writerFunc func([]byte) int

func (f writerFunc) Write(b []byte) (int, error) { return f(b), nil }

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
			require.NoError(t, l.Schedule(ctx, task("scheduled"), time.Millisecond))
			require.NoError(t, l.Execute(ctx, task("executed")))
			results, err := l.Register(gnet.NewContext(ctx, "context"), c.LocalAddr())
			require.NoError(t, err)
			go func() {
				result := <-results
				require.NoError(t, result.Err)
				ran <- "result"
			}()
			_, err = l.Register(ctx, &net.UDPAddr{})
			require.ErrorIs(t, err, gneterrors.ErrUnsupportedProtocol)
			_, err = l.Enroll(ctx, &net.TCPConn{})
			require.ErrorIs(t, err, gneterrors.ErrUnsupportedOp)
			require.ErrorIs(t, l.Schedule(ctx, nil, time.Hour), gneterrors.ErrNilRunnable)
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

// TestAfterClose checks the methods of a connection and of its loop after OnClose, and
// after the end of the engine.
func TestAfterClose(t *testing.T) {
	closed := make(chan gnet.Conn, 1)
	s := run(t, &hooks{
		open: func(c gnet.Conn) ([]byte, gnet.Action) { return []byte("last words"), gnet.Close },
		close: func(c gnet.Conn, _ error) gnet.Action {
			require.NotNil(t, c.RemoteAddr())
			n, err := c.Write([]byte(", and more"))
			require.NoError(t, err)
			require.Equal(t, 10, n)
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
