//go:build linux

package stream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/stream"
)

// stopHooks is a hooks with a function for OnStop.
type stopHooks struct {
	*hooks
	stops int // number of calls of OnStop
	stop  func(*stream.Stream)
}

func (h *stopHooks) OnStop(s *stream.Stream) {
	h.stops++
	h.stop(s)
}

// A stopPair is a stream between a client and a server whose Handler has an OnStop of its own.
type stopPair struct {
	handler          *stopHooks
	engine           *reactor.Engine // of the server
	dialed, accepted *stream.Stream
	client, server   endRecord
	closed           time.Duration // time of OnClose of the server
}

const stopDrainTimeout = time.Second

func connectStop(t *testing.T, w *reactortest.World, server, client *reactortest.Process, stop func(*stream.Stream)) *stopPair {
	p := &stopPair{engine: server.Start(reactor.BaseHandler{}, &reactor.Config{Limits: reactor.Limits{DrainTimeout: stopDrainTimeout}})}
	p.handler = &stopHooks{hooks: p.server.hooks(), stop: stop}
	p.handler.open = func(s *stream.Stream) { p.accepted = s }
	record := p.handler.close
	p.handler.close = func(s *stream.Stream, err error) {
		p.closed = w.Now()
		record(s, err)
	}
	dialer := p.client.hooks()
	dialer.open = func(s *stream.Stream) { p.dialed = s }
	at := server.Host().AddrPort(1)
	_, err := stream.Listen(p.engine, at, p.handler, nil)
	require.NoError(t, err)
	require.NoError(t, stream.Dial(client.Start(reactor.BaseHandler{}, nil), at, dialer, nil))
	w.Until(time.Second, func() bool { return p.dialed != nil && p.accepted != nil })
	w.Settle()
	return p
}

// TestOnStop checks that a handler can write last bytes when the engine stops, in OnStop
// or later, and that the engine ends a stream that the handler does not close.
func TestOnStop(t *testing.T) {
	bye := func(s *stream.Stream) { write(t, s, "goodbye") }
	goodbye := func(s *stream.Stream) {
		bye(s)
		require.NoError(t, s.Close())
	}
	for name, test := range map[string]struct {
		stop  func(*stream.Stream)
		reset bool // the engine ends the stream
		ends  int  // number of calls of OnEnd of the client
		took  time.Duration
	}{
		"at once": {stop: goodbye, ends: 1},
		"later": {
			stop: func(s *stream.Stream) { s.Conn().Loop().After(stopDrainTimeout/2, func() { goodbye(s) }) },
			ends: 1, took: stopDrainTimeout / 2,
		},
		"not closed": {stop: bye, reset: true, took: stopDrainTimeout},
		"half closed": {
			stop:  func(s *stream.Stream) { bye(s); require.NoError(t, s.CloseWrite()) },
			reset: true, ends: 1, took: stopDrainTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, w *reactortest.World, server, client *reactortest.Process) {
				p := connectStop(t, w, server, client, test.stop)
				begin := w.Now()
				p.engine.Stop()
				require.NoError(t, p.engine.Wait())
				w.Settle()
				require.Equal(t, 1, p.handler.stops)
				require.InDelta(t, test.took, p.closed-begin, float64(10*time.Millisecond))
				require.Equal(t, endRecord{data: "goodbye", ends: test.ends, closes: 1, err: p.client.err}, p.client)
				require.Equal(t, 1, p.server.closes)
				if !test.reset {
					require.NoError(t, p.server.err)
					require.Equal(t, stream.ErrPeerClosed, p.client.err)
					return
				}
				_, reset := errors.AsType[*stream.ResetError](p.server.err)
				require.True(t, reset)
				require.ErrorIs(t, p.server.err, reactor.ErrShutdown)
				_, reset = errors.AsType[*stream.ResetError](p.client.err)
				require.True(t, reset)
			})
		})
	}
}

// TestNoOnStop checks that OnStop is not called after OnClose, while the connection waits for
// the peer to disconnect.
func TestNoOnStop(t *testing.T) {
	onBothPaths(t, func(t *testing.T, w *reactortest.World, server, client *reactortest.Process) {
		p := connectStop(t, w, server, client, func(s *stream.Stream) { _ = s.Close() })
		p.handler.close = func(_ *stream.Stream, err error) {
			require.Equal(t, stream.ErrPeerClosed, err)
			require.Equal(t, reactor.StateOpen, p.accepted.Conn().State())
			p.engine.Stop()
		}
		w.On(p.dialed.Conn().Loop(), func() { require.NoError(t, p.dialed.Close()) })
		require.NoError(t, p.engine.Wait())
		require.Zero(t, p.handler.stops)
		require.Equal(t, endRecord{closes: 1}, p.client)
	})
}
