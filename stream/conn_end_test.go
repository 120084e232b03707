package stream_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// TestCloseTimeout checks that Close does not wait for ever for a peer that confirms
// nothing, and returns an error.
func TestCloseTimeout(t *testing.T) {
	server, _ := connToIdleLoop(t, newNetwork(t, path{}, stream.NetworkConfig{CloseTimeout: time.Millisecond}))
	_, err := server.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.Error(t, server.Close())
}

// TestConnCloseUnconfirmed checks that Close returns an error if the peer, which has
// ended its writing direction, has not confirmed all bytes.
func TestConnCloseUnconfirmed(t *testing.T) {
	server, peer := connToIdleLoop(t, newNetwork(t, path{}, stream.NetworkConfig{CloseTimeout: time.Millisecond}))
	require.NoError(t, peer.dialed.CloseWrite())
	peer.dialed.Flush()
	_, err := io.ReadAll(server)
	require.NoError(t, err)
	_, err = server.Write(make([]byte, 100_000))
	require.NoError(t, err)
	require.ErrorIs(t, server.Close(), syscall.ECONNRESET)
}

// TestCloseTimeoutOfSleepingLoop checks that the timeout of Close ends Close, also if the
// loop was sleeping before.
func TestCloseTimeoutOfSleepingLoop(t *testing.T) {
	n := newNetwork(t, path{}, stream.NetworkConfig{CloseTimeout: time.Millisecond, Reactor: reactor.Config{Limits: reactor.Limits{SafetyTimeout: time.Hour}}})
	server, _ := connToIdleLoop(t, n)
	_, err := server.Write(make([]byte, 1000))
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond) // If the loop does not sleep yet, the test checks less.
	require.Error(t, server.Close())
}

// TestWriteDuringReset checks that the error of Write matches syscall.ECONNRESET from the
// moment at which the connection fails.
func TestWriteDuringReset(t *testing.T) {
	for range 10 {
		server, peer := connToIdleLoop(t, newNetwork(t, path{}, stream.NetworkConfig{}))
		const writers = 3
		ended := make(chan error, writers)
		for range writers {
			go func() {
				for {
					if _, err := server.Write(make([]byte, 10)); err != nil {
						ended <- err
						return
					}
				}
			}()
		}
		peer.drive(t, func() bool { return peer.dialed.Len() > 0 })
		require.NoError(t, peer.dialed.Abort(nil))
		peer.drive(t, func() bool { return len(ended) == writers })
		for range writers {
			require.ErrorIs(t, <-ended, syscall.ECONNRESET)
		}
	}
}

// A blockedWriter is an io.Writer whose Write waits until the channel out is closed.
type blockedWriter struct{ in, out chan struct{} }

func (w blockedWriter) Write(b []byte) (int, error) {
	close(w.in)
	<-w.out
	return len(bytes.Clone(b)), nil
}

// TestWriteToDuringClose checks that the bytes that WriteTo has passed to a Writer stay
// valid when the Network is closed.
func TestWriteToDuringClose(t *testing.T) {
	n := newNetwork(t, path{}, stream.NetworkConfig{})
	server, peer := connToIdleLoop(t, n)
	write(t, peer.dialed, "bytes")
	peer.dialed.Flush()
	w := blockedWriter{make(chan struct{}), make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := server.WriteTo(w)
		ended <- err
	}()
	<-w.in
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	peer.drive(t, func() bool { return len(closed) == 1 })
	require.NoError(t, <-closed)
	close(w.out)
	require.ErrorIs(t, <-ended, net.ErrClosed)
}

// TestClosedConnsAreFreed checks that a deadline does not keep a closed connection in
// memory.
func TestClosedConnsAreFreed(t *testing.T) {
	const conns = 10
	freed := make(chan struct{}, conns)
	func() {
		client, server := newNetwork(t, path{}, stream.NetworkConfig{}), newNetwork(t, path{}, stream.NetworkConfig{})
		ln, err := server.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		for range conns {
			c, err := client.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			runtime.AddCleanup(c.(*stream.Conn), func(int) { freed <- struct{}{} }, 0)
			require.NoError(t, c.SetDeadline(time.Now().Add(time.Hour)))
			accepted, err := ln.Accept()
			require.NoError(t, err)
			require.NoError(t, c.Close())
			require.NoError(t, accepted.Close())
		}
	}()
	for len(freed) < conns-1 { // The stack may still have a pointer to the last connection.
		runtime.GC()
		runtime.Gosched()
	}
}

// TestListenerFails checks that Accept returns the reason if the device of a listener has
// failed or the loop has ended, and that connections which wait for Accept are closed.
func TestListenerFails(t *testing.T) {
	for name, fail := range map[string]func(*stream.Network, net.Listener) error{
		"device": func(n *stream.Network, ln net.Listener) error {
			stream.FailListener(ln.(*stream.Listener), reactor.ErrDeviceRemoved)
			return reactor.ErrDeviceRemoved
		},
		"loop": func(n *stream.Network, _ net.Listener) error {
			stream.StopLoop(n)
			return reactor.ErrShutdown
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, path{}, stream.NetworkConfig{})
			ln, err := n.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			waiting, err := newNetwork(t, path{}, stream.NetworkConfig{}).Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			reason := fail(n, ln)
			_, err = waiting.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			for err = nil; err == nil; { // The first call may return the closed connection.
				_, err = ln.Accept()
			}
			require.ErrorIs(t, err, reason)
			require.NoError(t, ln.Close())
			require.ErrorIs(t, ln.Close(), net.ErrClosed)
		})
	}
}

// TestLoopStops checks that calls which wait return when the loop stops.
func TestLoopStops(t *testing.T) {
	n := newNetwork(t, path{}, stream.NetworkConfig{})
	server, peer := connToIdleLoop(t, n)
	ended := make(chan error, 1)
	go func() {
		_, err := server.Read(make([]byte, 1))
		ended <- err
	}()
	stream.StopLoop(n)
	peer.drive(t, func() bool { return len(ended) == 1 })
	require.ErrorIs(t, <-ended, net.ErrClosed)
	_, err := server.Write([]byte("late"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, server.Close())
}

// TestNetworkCloseWaits checks that Close of a Network waits for a connection that
// another goroutine is closing.
func TestNetworkCloseWaits(t *testing.T) {
	n := newNetwork(t, path{}, stream.NetworkConfig{CloseTimeout: time.Minute})
	server, peer := connToIdleLoop(t, n)
	_, err := server.Write([]byte("the peer confirms this later"))
	require.NoError(t, err)
	closed := make(chan error, 2)
	go func() { closed <- server.Close() }()
	for !errors.Is(server.SetDeadline(time.Time{}), net.ErrClosed) {
		runtime.Gosched()
	}
	go func() { closed <- n.Close() }()
	for ln, err := n.Listen("tcp", ":0"); err == nil; ln, err = n.Listen("tcp", ":0") {
		_ = ln.Close() // n.Close may have closed ln already.
	}
	peer.drive(t, func() bool { return len(closed) == 2 })
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
}

// TestNetworkClose checks that Close of a Network ends the calls that wait.
func TestNetworkClose(t *testing.T) {
	server := newNetwork(t, path{}, stream.NetworkConfig{})
	ln, err := server.Listen("tcp", ":0")
	require.NoError(t, err)
	client := newNetwork(t, path{}, stream.NetworkConfig{})
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	c, err := client.Dial("tcp", ":"+port)
	require.NoError(t, err)
	accepted, err := ln.Accept()
	require.NoError(t, err)
	ended := make(chan error, 2)
	go func() {
		_, err := ln.Accept()
		ended <- err
	}()
	go func() {
		_, err := accepted.Read(make([]byte, 1))
		ended <- err
	}()
	require.NoError(t, server.Close())
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	require.ErrorIs(t, <-ended, net.ErrClosed)
	_, err = c.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = server.Dial("tcp", ln.Addr().String())
	require.Error(t, err)
	_, err = server.Listen("tcp", ":0")
	require.Error(t, err)
}
