//go:build linux

package reactor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestSilentPeersAreDropped checks that peers that are silent since OnOpen do not delay a
// shutdown for long, and that sends to them are reported.
func TestSilentPeersAreDropped(t *testing.T) {
	const sends = 3 // on the second connection
	var ends, failed []error
	opened := 0
	server := &hooks{
		open: func(c *reactor.Conn) {
			for opened++; opened == 2 && c.Stats().InFlight < sends; {
				require.NoError(t, c.Send([]byte("greeting"), &reactor.OpOptions{Notify: true}))
			}
		},
		completion: func(_ *reactor.Conn, _ reactor.Op, err error) { failed = append(failed, err) },
		close:      func(_ *reactor.Conn, err error) { ends = append(ends, err) },
	}
	inWorld(t, &hooks{}, server, nil, func(t *testing.T, p *worldPair) {
		p.Dial(p.client.Engine(), p.host.AddrPort(1), nil)
		p.clientProcess.Stop()
		p.Until(time.Second, func() bool { return opened == 2 })
		begin := p.Now()
		shutdown(t, p.server.Engine())
		requireTook(t, reactor.SilentLimit, p.Now()-begin)
		require.Len(t, ends, 2)
		require.NoError(t, ends[0])
		require.ErrorIs(t, ends[1], reactor.ErrShutdown)
		require.Len(t, failed, sends)
		for _, err := range failed {
			require.ErrorIs(t, err, reactor.ErrShutdown)
		}
	})
}

// TestPeersThatWereHeardGetTheDrainTimeout checks that silentLimit does not apply to a
// peer that has sent or confirmed something, and then stops.
func TestPeersThatWereHeardGetTheDrainTimeout(t *testing.T) {
	var accepted []*reactor.Conn
	server := &hooks{open: func(c *reactor.Conn) { accepted = append(accepted, c) }}
	inWorld(t, &hooks{}, server, &reactor.Config{Limits: reactor.Limits{DrainTimeout: shortTime}}, func(t *testing.T, p *worldPair) {
		for n := range 2 {
			p.Dial(p.client.Engine(), p.host.AddrPort(1), nil)
			p.Until(time.Second, func() bool { return len(accepted) == n+2 })
		}
		p.For(time.Second)
		p.do(func() { require.NoError(t, p.dialed.Send([]byte("message"), nil)) })
		p.On(p.server, func() {
			require.NoError(t, accepted[1].Send([]byte("confirmed"), &reactor.OpOptions{Notify: true}))
			reactor.Probe(accepted[2])
		})
		p.For(time.Second)
		p.clientProcess.Stop()
		p.On(p.server, func() {
			for _, c := range accepted {
				require.NoError(t, c.Send([]byte("unconfirmed"), nil))
			}
		})
		p.server.Engine().Stop()
		p.For(2 * reactor.SilentLimit)
		for i, heard := range []string{"message", "confirmation", "probe"} {
			require.Equal(t, reactor.StateDraining, accepted[i].State(), heard)
		}
	})
}

// TestLastMessageToASilentPeer checks that a peer that only listens gets the last message
// of a handler with OnStop.
func TestLastMessageToASilentPeer(t *testing.T) {
	var got []string
	client := &hooks{message: func(_ *reactor.Conn, m reactor.Message) { got = append(got, string(m.Data())) }}
	server := &stopHooks{stop: func(c *reactor.Conn) {
		require.NoError(t, c.Send([]byte("bye"), nil))
		require.NoError(t, c.Close())
	}}
	inWorld(t, client, server, nil, func(t *testing.T, p *worldPair) {
		p.For(10 * reactor.SilentLimit)
		shutdown(t, p.server.Engine())
		require.NoError(t, p.acceptCloseErr)
		require.Equal(t, []string{"bye"}, got)
	})
}

// TestShutdownDeadline checks that Shutdown ends a connection with an undelivered
// message when its context is done. It returns the context's cause.
func TestShutdownDeadline(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, nil, func(t *testing.T, p *worldPair) {
		p.serverProcess.Stop()
		p.do(func() { require.NoError(t, p.dialed.Send([]byte("never received"), nil)) })
		cause := errors.New("cause")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		begin := p.Now()
		require.ErrorIs(t, p.client.Engine().Shutdown(ctx), cause)
		requireTook(t, time.Second, p.Now()-begin)
		require.ErrorIs(t, p.dialCloseErr, reactor.ErrShutdown)
		require.NoError(t, p.client.Engine().Wait())
	})
}

// TestEndedLoopTakesNoSends checks that OnCompletion can neither send nor abort when a loop
// ends that does not wait for its peers. Seed 299 of reactortest's TestAnswers found that
// the loop took both, and sends from OnCompletion without end.
func TestEndedLoopTakesNoSends(t *testing.T) {
	failed := 0
	client := &hooks{completion: func(c *reactor.Conn, _ reactor.Op, err error) {
		failed++
		require.ErrorIs(t, err, reactor.ErrShutdown)
		require.ErrorIs(t, c.Send([]byte("again"), nil), reactor.ErrClosed)
		require.ErrorIs(t, c.Abort(nil), reactor.ErrClosed)
	}}
	p := connect(t, client, &hooks{}, nil)
	for range 2 {
		require.NoError(t, p.dialed.Send([]byte("never received"), &reactor.OpOptions{Notify: true}))
	}
	require.NoError(t, p.client.Close())
	require.Equal(t, 2, failed)
	require.ErrorIs(t, p.dialCloseErr, reactor.ErrShutdown)
}
