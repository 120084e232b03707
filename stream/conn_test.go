package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newNetwork makes a Network with a device of its own.
func newNetwork(t testing.TB, p path, cfg stream.NetworkConfig) *stream.Network {
	device, err := soft.Open(&p.soft)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	cfg.LocalAddr = p.client.Addr()
	n, err := stream.New(device, &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// connPair opens a connection between two Networks.
func connPair(t testing.TB, p path, cfg stream.NetworkConfig) (client, server *stream.Conn) {
	ln, err := newNetwork(t, path{soft: p.soft}, cfg).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c1, err := newNetwork(t, p, cfg).Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	c2, err := ln.Accept()
	require.NoError(t, err)
	return c1.(*stream.Conn), c2.(*stream.Conn)
}

// TestConnCopies checks ReadFrom, WriteTo and net.Buffers with more bytes than fit into
// the buffers. The client still reads after CloseWrite.
func TestConnCopies(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		client, server := connPair(t, p, stream.NetworkConfig{Buffers: stream.Buffers{Receive: 30_000, Send: 10_000}})
		_, all := newSender(t, 3, 1<<20)
		go func() {
			n, err := io.Copy(server, server) // io.Copy calls WriteTo.
			assert.Equal(t, int64(len(all)), n)
			assert.NoError(t, errors.Join(err, server.CloseWrite()))
		}()
		go func() {
			buffers := net.Buffers{all[:100], all[100:5000], all[5000:100_000]}
			_, err := buffers.WriteTo(client)
			assert.NoError(t, err)
			n, err := client.ReadFrom(bytes.NewReader(all[100_000:]))
			assert.Equal(t, int64(len(all)-100_000), n)
			assert.NoError(t, errors.Join(err, client.CloseWrite()))
		}()
		got, err := io.ReadAll(client)
		require.NoError(t, err)
		require.True(t, bytes.Equal(all, got))
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	})
}

// TestConnErrors checks that the errors of a Conn match those of package net.
func TestConnErrors(t *testing.T) {
	client, server := connPair(t, path{}, stream.NetworkConfig{})
	b := make([]byte, 10)
	var op *net.OpError

	require.NoError(t, client.SetReadDeadline(time.Now()))
	_, err := client.Read(b)
	require.ErrorAs(t, err, &op)
	require.True(t, op.Timeout() && op.Temporary())
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, "read rdma "+client.LocalAddr().String()+"->"+server.LocalAddr().String()+": i/o timeout", err.Error())

	_, err = server.Write([]byte("unread"))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.ErrorIs(t, server.Close(), net.ErrClosed)
	require.ErrorIs(t, server.SetDeadline(time.Time{}), net.ErrClosed)
	_, err = server.Read(b)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = server.Write(b)
	require.ErrorIs(t, err, net.ErrClosed)

	require.NoError(t, client.SetReadDeadline(time.Time{}))
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "unread", string(got))
	_, err = client.Write(b)
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, client.Close())
}

// TestConnReset checks that bytes that had arrived can be read after the connection was
// reset, and that the error after them matches syscall.ECONNRESET.
func TestConnReset(t *testing.T) {
	ln, err := newNetwork(t, path{}, stream.NetworkConfig{}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().(stream.Addr).AddrPort
	l := newLoop(t, path{}, nil)
	var dialed *stream.Stream
	require.NoError(t, stream.Dial(l.Engine(), addr, &hooks{open: func(s *stream.Stream) { dialed = s }}, nil))
	e := &pair{client: l, server: l}
	e.drive(t, func() bool { return dialed != nil })
	write(t, dialed, "the last words")
	dialed.Flush()
	server, err := ln.Accept()
	require.NoError(t, err)
	b := make([]byte, 3)
	_, err = io.ReadFull(server, b)
	require.NoError(t, err)
	require.NoError(t, dialed.Abort(nil))
	e.drive(t, func() bool { return dialed.Conn().State() == reactor.StateClosed })
	got, err := io.ReadAll(server)
	require.Equal(t, " last words", string(got))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = server.Write(b)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, server.Close(), syscall.ECONNRESET)
}

// connToIdleLoop opens a connection from a new loop to a Network. The loop then runs no
// turns until the caller drives it. The results are the connection of the Network, and a
// pair that has only the loop and its stream.
func connToIdleLoop(t *testing.T, n *stream.Network) (*stream.Conn, *pair) {
	ln, err := n.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := newLoop(t, path{}, nil)
	p := &pair{client: l, server: l}
	keep := &hooks{open: func(s *stream.Stream) { p.dialed = s }, data: func(*stream.Stream) {}}
	require.NoError(t, stream.Dial(l.Engine(), ln.Addr().(stream.Addr).AddrPort, keep, nil))
	p.drive(t, func() bool { return p.dialed != nil })
	c, err := ln.Accept()
	require.NoError(t, err)
	return c.(*stream.Conn), p
}

// TestDialErrors checks the errors of Dial, and that a canceled Dial ends at once, and with it
// the request.
func TestDialErrors(t *testing.T) {
	n := newNetwork(t, path{}, stream.NetworkConfig{Reactor: reactor.Config{Limits: reactor.Limits{ConnectTimeout: time.Hour}}})
	var op *net.OpError
	_, err := n.Dial("udp", "127.0.0.1:1")
	require.ErrorAs(t, err, &op)
	require.ErrorContains(t, err, "unknown network udp")
	_, err = n.Dial("tcp", "127.0.0.1")
	require.ErrorContains(t, err, "missing port")
	_, err = n.Dial("tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, cm.ErrRefused)
	for _, d := range []time.Duration{365 * 24 * time.Hour, math.MaxInt64} { // longer than cm.MaxTimeout
		far, cancel := context.WithDeadline(context.Background(), time.Now().Add(d))
		defer cancel()
		_, err = n.DialContext(far, "tcp", "127.0.0.1:1")
		require.ErrorIs(t, err, cm.ErrRefused)
	}

	// This listener of package reactor never answers.
	server := newLoop(t, path{}, nil)
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(time.Millisecond, func() { cancel(errors.New("not needed any more")) })
	for range 2 { // The second time the context is done before the call.
		_, err = n.DialContext(ctx, "tcp", ln.Addr().String())
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Eventually(t, func() bool { return n.Engine().Stats().Conns == 0 }, time.Minute, time.Millisecond)
}

// TestClosedAtOnce checks that Dial returns a connection that the peer has closed before
// Dial has returned, and that its bytes can be read.
func TestClosedAtOnce(t *testing.T) {
	l := newLoop(t, path{}, nil)
	closing := &hooks{open: func(s *stream.Stream) {
		_, err := s.Write([]byte("bytes"))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}}
	ln, err := stream.Listen(l.Engine(), loopback, closing, nil)
	require.NoError(t, err)
	n := newNetwork(t, path{}, stream.NetworkConfig{})
	read := make(chan string)
	go func() {
		defer close(read)
		for range 20 {
			c, err := n.Dial("tcp", ln.Addr().String())
			if !assert.NoError(t, err) {
				return
			}
			b, err := io.ReadAll(c)
			assert.NoError(t, err)
			read <- string(b)
		}
	}()
	p := &pair{client: l, server: l}
	for open := true; open; {
		p.drive(t, func() bool {
			select {
			case b, ok := <-read:
				open = ok
				require.True(t, !ok || b == "bytes", b)
				return true
			default:
				return false
			}
		})
	}
}

// TestBacklog checks that a Listener rejects requests when as many connections as
// NetworkConfig.Backlog wait for Accept, and that Close ends Accept and these
// connections.
func TestBacklog(t *testing.T) {
	server := newNetwork(t, path{}, stream.NetworkConfig{Backlog: 2})
	ln, err := server.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	client := newNetwork(t, path{}, stream.NetworkConfig{})
	dial := func() (net.Conn, error) { return client.Dial("tcp", ln.Addr().String()) }
	// A connection opens at the listener after Dial has returned.
	dialAndWait := func(waiting int) net.Conn {
		c, err := dial()
		require.NoError(t, err)
		for stream.Waiting(ln.(*stream.Listener)) < waiting {
			runtime.Gosched()
		}
		return c
	}
	c := dialAndWait(1)
	dialAndWait(2)
	_, err = dial()
	require.ErrorContains(t, err, "refused by the application")
	_, err = ln.Accept()
	require.NoError(t, err)
	third := dialAndWait(2)
	require.NoError(t, ln.Close())
	require.ErrorIs(t, ln.Close(), net.ErrClosed)
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = third.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = c.Write([]byte("the accepted connection stays open"))
	require.NoError(t, err)
}

// TestBacklogOfSimultaneousDials checks that at most NetworkConfig.Backlog connections
// wait for Accept when more are opened at the same time. The others are rejected or
// reset.
func TestBacklogOfSimultaneousDials(t *testing.T) {
	const backlog, dials = 2, 8
	server := newNetwork(t, path{}, stream.NetworkConfig{Backlog: backlog})
	ln, err := server.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	client := newNetwork(t, path{}, stream.NetworkConfig{})
	dialAndRead := func() error {
		c, err := client.Dial("tcp", ln.Addr().String())
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		return err
	}
	results := make(chan error, dials)
	for range dials {
		go func() { results <- dialAndRead() }()
	}
	for range dials - backlog {
		err := <-results
		var early *verbs.CompletionError
		switch {
		case errors.Is(err, syscall.ECONNRESET):
		case errors.As(err, &early): // The reset came before Dial had opened the connection.
			require.Equal(t, verbs.StatusWRFlushErr, early.Status)
		default:
			require.ErrorContains(t, err, "refused by the application")
		}
	}
	for range backlog {
		c, err := ln.Accept()
		require.NoError(t, err)
		_, err = c.Write([]byte{1})
		require.NoError(t, err)
	}
	for range backlog {
		require.NoError(t, <-results)
	}
}
