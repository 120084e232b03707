package gnetrdma_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
)

// TestWriteAfterReadFrom checks that Write sends the output of an earlier ReadFrom.
func TestWriteAfterReadFrom(t *testing.T) {
	left := make(chan int, 1)
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		_, _ = c.Discard(-1)
		_, err := c.ReadFrom(strings.NewReader("header "))
		assert.NoError(t, err)
		_, err = c.Write([]byte("body"))
		assert.NoError(t, err)
		left <- c.OutboundBuffered()
		return gnet.None
	}}, gnetrdma.Config{}, nil)
	c := s.dial()
	_, err := io.WriteString(c, "go")
	require.NoError(t, err)
	require.Zero(t, <-left)
	got := make([]byte, len("header body"))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "header body", string(got))
}

// TestWriteToFailedStream checks that OnClose gets the reason why the stream has failed
// if the handler writes after the failure and before OnClose.
func TestWriteToFailedStream(t *testing.T) {
	cause := errors.New("the stream has failed")
	for name, write := range map[string]func(c gnet.Conn) error{
		"Write": func(c gnet.Conn) error {
			_, err := c.Write([]byte("x"))
			return err
		},
		"Flush": func(c gnet.Conn) error {
			_, err := c.ReadFrom(strings.NewReader("x"))
			return errors.Join(err, c.Flush())
		},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan error, 1)
			s := run(t, &hooks{
				open: func(c gnet.Conn) ([]byte, gnet.Action) {
					assert.NoError(t, gnetrdma.FailStream(c, cause))
					assert.ErrorIs(t, write(c), net.ErrClosed)
					assert.Empty(t, closed, "Write has closed the connection")
					return nil, gnet.None
				},
				close: func(_ gnet.Conn, err error) gnet.Action {
					closed <- err
					return gnet.None
				},
			}, gnetrdma.Config{}, nil)
			s.dial()
			require.ErrorIs(t, <-closed, cause)
		})
	}
}

// TestWriteTo checks WriteTo with Writers that take a part of the bytes, return a wrong
// number, or close the connection.
func TestWriteTo(t *testing.T) {
	for _, test := range []struct {
		name    string
		n       int // result of Write
		closes  bool
		want    int64
		wantErr error
		left    int
	}{
		{name: "all", n: 10, want: 10},
		{name: "part", n: 4, want: 4, wantErr: io.ErrShortWrite, left: 6},
		{name: "negative", n: -1, wantErr: io.ErrShortWrite, left: 10},
		{name: "too many", n: 11, want: 10},
		{name: "closed", n: 10, closes: true, want: 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			inLoop(t, "0123456789", func(c gnet.Conn) {
				n, err := c.WriteTo(writer(func(b []byte) (int, error) {
					assert.Equal(t, "0123456789", string(b))
					if test.closes {
						assert.NoError(t, c.EventLoop().Close(c))
					}
					return test.n, nil
				}))
				assert.Equal(t, test.want, n)
				assert.Equal(t, test.wantErr, err)
				assert.Equal(t, test.left, c.InboundBuffered())
			})
		})
	}
}

// A writer is a function that is an io.Writer.
type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
