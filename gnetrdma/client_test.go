package gnetrdma_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
)

// TestClientErrors checks the errors of Dial and Enroll.
func TestClientErrors(t *testing.T) {
	client, err := gnetrdma.NewClient(&hooks{})
	require.NoError(t, err)
	require.NoError(t, client.Start())
	for address, want := range map[[2]string]string{
		{"unix", "/x"}:          gneterrors.ErrUnsupportedProtocol.Error(),
		{"rdma", "127.0.0.1:1"}: "connection refused",
		{"rdma4", ":1"}:         "127.0.0.1:1",
		{"rdma6", ":1"}:         "[::1]:1",
	} {
		_, err = client.Dial(address[0], address[1])
		require.ErrorContains(t, err, want)
	}
	_, err = client.Enroll(&net.TCPConn{})
	require.ErrorIs(t, err, gneterrors.ErrUnsupportedOp)
	require.NoError(t, client.Stop())
	_, err = client.Dial("rdma", "127.0.0.1:1")
	require.ErrorIs(t, err, gneterrors.ErrEngineInShutdown)
}

// TestClient checks the order of the callbacks of a Client, and its connections.
func TestClient(t *testing.T) {
	ln, err := newNetwork(t).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	calls := make(chan string, 10)
	call := func(name string) { calls <- name }
	h := &hooks{
		boot: func(e gnet.Engine) gnet.Action {
			require.ErrorIs(t, e.Validate(), gneterrors.ErrEmptyEngine)
			call("OnBoot")
			return gnet.None
		},
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			require.Equal(t, "context", c.Context())
			call("OnOpen")
			return []byte("hello"), gnet.None
		},
		traffic: func(c gnet.Conn) gnet.Action {
			b, _ := c.Next(-1)
			call(string(b))
			return gnet.None
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			require.NoError(t, err)
			call("OnClose")
			return gnet.None
		},
		shutdown: func() { call("OnShutdown") },
		tick: func() (time.Duration, gnet.Action) {
			call("OnTick")
			return time.Hour, gnet.None
		},
	}
	client, err := gnetrdma.NewClient(h, gnet.WithTicker(true))
	require.NoError(t, err)
	require.NoError(t, client.Start())
	require.Equal(t, "OnBoot", <-calls)
	require.Equal(t, "OnTick", <-calls)
	c, err := client.DialContext("tcp", ln.Addr().String(), "context")
	require.NoError(t, err)
	require.Equal(t, ln.Addr(), c.RemoteAddr())
	require.Equal(t, "OnOpen", <-calls)
	require.Equal(t, "hello", <-calls)

	require.NoError(t, client.Stop())
	require.Equal(t, "OnShutdown", <-calls)
	require.Equal(t, "OnClose", <-calls)
	require.NoError(t, client.Stop())
	require.Empty(t, calls)
}

// TestClientStates checks the calls that a Client allows before Start and after Stop.
func TestClientStates(t *testing.T) {
	client, err := gnetrdma.NewClient(&hooks{shutdown: func() { t.Error("OnShutdown was called") }})
	require.NoError(t, err)
	_, err = client.Dial("rdma", "127.0.0.1:1")
	require.ErrorIs(t, err, gneterrors.ErrEmptyEngine)
	require.NoError(t, client.Stop())
	require.NoError(t, client.Stop())
	require.ErrorIs(t, client.Start(), gneterrors.ErrEngineInShutdown)
	_, err = client.Dial("rdma", "127.0.0.1:1")
	require.ErrorIs(t, err, gneterrors.ErrEngineInShutdown)
}

// TestClientTickShutdown checks that gnet.Shutdown of OnTick closes the connections, and
// that OnTick is not called again.
func TestClientTickShutdown(t *testing.T) {
	ticks, closed, open := 0, make(chan error, 1), make(chan struct{})
	client, err := gnetrdma.NewClient(&hooks{
		close: func(_ gnet.Conn, err error) gnet.Action {
			closed <- err
			return gnet.None
		},
		tick: func() (time.Duration, gnet.Action) {
			<-open
			ticks++
			return 0, gnet.Shutdown
		},
	}, gnet.WithTicker(true))
	require.NoError(t, err)
	require.NoError(t, client.Start())
	ln, err := newNetwork(t).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, err = client.Dial("rdma", ln.Addr().String())
	require.NoError(t, err)
	close(open)
	require.NoError(t, <-closed)
	require.NoError(t, client.Stop())
	require.Equal(t, 1, ticks)
}
