package gnetrdma_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestClientErrors checks the errors of Dial and Enroll.
func TestClientErrors(t *testing.T) {
	client, err := gnetrdma.NewClient(&hooks{})
	require.NoError(t, err)
	require.NoError(t, client.Start())
	for address, want := range map[[2]string]string{
		{"unix", "/x"}:          `the network "unix" is none of rdma, rdma4 and rdma6`,
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

// TestClientStates checks the methods of a Client that was not started, and of one that
// was stopped then.
func TestClientStates(t *testing.T) {
	var calls atomic.Int32
	h := &hooks{
		boot:     func(gnet.Engine) gnet.Action { calls.Add(1); return gnet.None },
		shutdown: func() { calls.Add(1) },
	}
	client, err := gnetrdma.NewClient(h)
	require.NoError(t, err)
	_, err = client.Dial("rdma", "127.0.0.1:1")
	require.ErrorIs(t, err, gnetrdma.ErrNotStarted)
	require.NoError(t, client.Stop())
	_, err = client.Dial("rdma", "127.0.0.1:1")
	require.ErrorIs(t, err, gneterrors.ErrEngineInShutdown)
	require.ErrorIs(t, client.Start(), verbs.ErrState)
	require.NoError(t, client.Stop())
	require.Zero(t, calls.Load(), "a callback was called")

	client, err = gnetrdma.NewClient(h)
	require.NoError(t, err)
	require.NoError(t, client.Start())
	require.ErrorIs(t, client.Start(), verbs.ErrState)
	require.NoError(t, client.Stop())
	require.EqualValues(t, 2, calls.Load())
}

// TestClientStartFails checks that a Client whose loops can not start is stopped.
func TestClientStartFails(t *testing.T) {
	cfg := gnetrdma.Config{Reactor: reactor.Config{CPUs: []int{missingCPU}}}
	client, err := cfg.NewClient(&hooks{shutdown: func() { t.Error("OnShutdown was called") }})
	require.NoError(t, err)
	require.Error(t, client.Start())
	_, err = client.Dial("rdma", "127.0.0.1:1")
	require.ErrorIs(t, err, gneterrors.ErrEngineInShutdown)
	require.NoError(t, client.Stop())
}

// missingCPU is the number of a processor that no machine for tests has.
const missingCPU = 1023

// TestClientTickShutdown checks that OnTick is not called any more after it has returned
// gnet.Shutdown, and that all connections are closed then.
func TestClientTickShutdown(t *testing.T) {
	s := run(t, &hooks{}, gnetrdma.Config{}, nil)
	dialed, closed := make(chan struct{}), make(chan error, 1)
	var ticks atomic.Int32
	client, err := gnetrdma.NewClient(&hooks{
		tick: func() (time.Duration, gnet.Action) {
			if ticks.Add(1) == 1 {
				<-dialed
			}
			return 0, gnet.Shutdown
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			closed <- err
			return gnet.None
		},
	}, gnet.WithTicker(true))
	require.NoError(t, err)
	require.NoError(t, client.Start())
	_, err = client.Dial("rdma", s.addr)
	require.NoError(t, err)
	close(dialed)
	require.NoError(t, <-closed)
	require.NoError(t, client.Stop())
	require.EqualValues(t, 1, ticks.Load())
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
			assert.ErrorIs(t, e.Validate(), gneterrors.ErrEmptyEngine)
			call("OnBoot")
			return gnet.None
		},
		open: func(c gnet.Conn) ([]byte, gnet.Action) {
			assert.Equal(t, "context", c.Context())
			call("OnOpen")
			return []byte("hello"), gnet.None
		},
		traffic: func(c gnet.Conn) gnet.Action {
			b, _ := c.Next(-1)
			call(string(b))
			return gnet.None
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			assert.NoError(t, err)
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
