package gnetrdma_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestOutboundBound checks that a connection ends when too much output waits, and that
// the peer learns of it.
func TestOutboundBound(t *testing.T) {
	for name, write := range map[string]func(c gnet.Conn) error{
		"Write": func(c gnet.Conn) error {
			n, err := c.Write(make([]byte, 4<<20))
			assert.Zero(t, n)
			return err
		},
		"ReadFrom": func(c gnet.Conn) error {
			_, err := c.ReadFrom(io.LimitReader(zeros{}, 1<<40))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan error, 2)
			s := run(t, &hooks{
				traffic: func(c gnet.Conn) gnet.Action {
					err := write(c)
					assert.ErrorIs(t, err, gnetrdma.ErrOutboundFull)
					_, err = c.Write([]byte("more"))
					assert.ErrorIs(t, err, net.ErrClosed)
					return gnet.None
				},
				close: func(_ gnet.Conn, err error) gnet.Action {
					closed <- err
					return gnet.None
				},
			}, gnetrdma.Config{MaxOutbound: 1 << 20}, nil)
			c := s.dial()
			_, err := io.WriteString(c, "go")
			require.NoError(t, err)
			require.ErrorIs(t, <-closed, gnetrdma.ErrOutboundFull)
			_, err = io.Copy(io.Discard, c)
			require.Error(t, err)
		})
	}
}

// TestReadFromWithoutFlush checks that a handler that never calls Flush can not stop its
// own input.
func TestReadFromWithoutFlush(t *testing.T) {
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		_, err := c.ReadFrom(io.LimitReader(zeros{}, 300<<10))
		assert.NoError(t, err)
		_, _ = c.Discard(-1)
		return gnet.None
	}}, gnetrdma.Config{MaxOutbound: 1 << 20, Reactor: reactor.Config{Limits: reactor.Limits{DrainTimeout: time.Millisecond}}}, nil)
	c := s.dial()
	for range 3 {
		_, err := io.WriteString(c, "x")
		require.NoError(t, err)
	}
	_, err := io.ReadFull(c, make([]byte, 300<<10))
	require.NoError(t, err)
}

// zeros is a reader of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestPause checks that a peer that sends requests and reads no answers has to wait, and
// that it gets all answers when it reads.
func TestPause(t *testing.T) {
	const limit = 1 << 20
	most := 0
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		most = max(most, c.OutboundBuffered())
		return echo(c)
	}}, gnetrdma.Config{MaxOutbound: limit}, nil)
	c := s.dial()
	want := make([]byte, 16<<20)
	for i := range want {
		want[i] = byte(i >> 10)
	}
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := c.Write(want)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	go func() {
		_, _ = c.Write(want[n:])
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "got %d bytes, want %d", len(got), len(want))
	s.stop()
	require.LessOrEqual(t, most, limit/4)
}

// TestInboundBound checks that a connection ends when the handler reads nothing.
func TestInboundBound(t *testing.T) {
	closed := make(chan error, 1)
	s := run(t, &hooks{close: func(_ gnet.Conn, err error) gnet.Action {
		closed <- err
		return gnet.None
	}}, gnetrdma.Config{MaxInbound: 1 << 20}, nil)
	c := s.dial()
	_, err := c.Write(make([]byte, 2<<20))
	for err == nil {
		_, err = c.Write(make([]byte, 1))
	}
	require.ErrorIs(t, <-closed, gnetrdma.ErrInboundFull)
}

// TestDeadlines checks that a read deadline and a write deadline end a connection, that a
// later deadline replaces an earlier one, and that a write deadline does nothing while no
// output waits.
func TestDeadlines(t *testing.T) {
	soon := func() time.Time { return time.Now().Add(time.Millisecond) }
	for name, set := range map[string]func(c gnet.Conn) error{
		"read": func(c gnet.Conn) error { return c.SetReadDeadline(soon()) },
		"earlier": func(c gnet.Conn) error {
			return errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(soon()))
		},
		"later": func(c gnet.Conn) error {
			return errors.Join(c.SetReadDeadline(soon()), c.SetReadDeadline(time.Now().Add(2*time.Millisecond)))
		},
		"past": func(c gnet.Conn) error { return c.SetDeadline(time.Unix(1, 0)) },
		"write": func(c gnet.Conn) error {
			_, err := c.Write(make([]byte, 8<<20))
			return errors.Join(err, c.SetWriteDeadline(soon()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan error, 1)
			s := run(t, &hooks{
				open: func(c gnet.Conn) ([]byte, gnet.Action) {
					assert.NoError(t, set(c))
					return nil, gnet.None
				},
				close: func(_ gnet.Conn, err error) gnet.Action {
					closed <- err
					return gnet.None
				},
			}, gnetrdma.Config{}, nil)
			s.dial()
			require.ErrorIs(t, <-closed, os.ErrDeadlineExceeded)
		})
	}
	for name, set := range map[string]func(c gnet.Conn) error{
		"none": func(c gnet.Conn) error {
			return errors.Join(c.SetDeadline(soon()), c.SetReadDeadline(time.Time{}))
		},
		// The number of nanoseconds since 1970 has no room in 64 bits.
		"far": func(c gnet.Conn) error {
			return c.SetDeadline(time.Date(2600, 1, 1, 0, 0, 0, 0, time.UTC))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t, &hooks{
				open: func(c gnet.Conn) ([]byte, gnet.Action) {
					assert.NoError(t, set(c))
					return nil, gnet.None
				},
				traffic: func(c gnet.Conn) gnet.Action {
					assert.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
					return echo(c)
				},
			}, gnetrdma.Config{}, nil)
			c := s.dial()
			for range 100 {
				requireEcho(t, c, "no output waits")
			}
		})
	}
}
