//go:build linux

package reactor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestDeadPeersAreNotAwaited kills the client, and checks how long the connection stays after
// OnClose, and how long a shutdown takes then. Nothing is awaited of a peer that is known to be
// dead. If its end is not known, because nothing is sent to it, it has DrainTimeout to answer.
func TestDeadPeersAreNotAwaited(t *testing.T) {
	send := func(c *reactor.Conn) error { return c.Send([]byte("lost"), nil) }
	for name, test := range map[string]struct {
		end     func(c *reactor.Conn) error
		want    error         // error of OnClose
		awaited time.Duration // how long the shutdown takes after OnClose
	}{
		"idle":                   {func(*reactor.Conn) error { return nil }, reactor.ErrKeepalive, 0},
		"unconfirmed sends":      {send, errRetries, 0},
		"Close after a send":     {func(c *reactor.Conn) error { return errors.Join(send(c), c.Close()) }, reactor.ErrDrainTimeout, 0},
		"Close of an idle one":   {(*reactor.Conn).Close, nil, shortTime},
		"Abort with a send lost": {func(c *reactor.Conn) error { return errors.Join(send(c), c.Abort(nil)) }, reactor.ErrAborted, shortTime},
	} {
		t.Run(name, func(t *testing.T) {
			closeOnPaths(t, nil, func(p *closingPair) {
				p.client.Send([]byte("heard"))
				p.Until(time.Second, func() bool { return p.conn.Stats().Messages == 1 })
				p.clientProcess.Kill()
				want, awaited := test.want, test.awaited
				if p.clientProcess.Host() == p.serverHost { // The server notices it at once.
					p.Until(time.Second, func() bool { return p.ended })
					want, awaited = verbs.ErrPeerGone, 0
				} else {
					p.do(test.end)
					p.Until(time.Minute, func() bool { return p.ended })
				}
				if failed := new(verbs.CompletionError); errors.As(p.err, &failed) && failed.Status == verbs.StatusRetryExcErr {
					p.err = errors.Join(p.err, errRetries)
				}
				require.ErrorIs(p.t, p.err, want)
				begin := p.Now()
				shutdown(p.t, p.server)
				requireTook(p.t, awaited, p.Now()-begin)
			})
		})
	}
}

// errRetries stands for a *verbs.CompletionError with StatusRetryExcErr.
var errRetries = errors.New("retries exhausted")

// TestPeerThatComesBackIsTold stops the client for so long that its connection ends. The server
// does not wait for it, but repeats the disconnect request.
func TestPeerThatComesBackIsTold(t *testing.T) {
	closeOnPaths(t, nil, func(p *closingPair) {
		p.Cut(p.serverHost, p.clientProcess.Host())
		p.clientProcess.Stop()
		p.wantEnd(reactor.ErrKeepalive)
		p.Until(time.Millisecond, func() bool { return p.server.Loop(0).Conns() == 0 })
		p.clientProcess.Continue()
		p.Heal(p.serverHost, p.clientProcess.Host())
		var end *reactor.CloseError
		require.ErrorAs(p.t, p.client.WantClose(reactor.ErrPeerClosed), &end)
		require.Equal(p.t, reactor.CloseSilent, end.Peer.Kind)
	})
}

// TestDrainTimeoutOfPeerThatIsHeard checks that a peer that confirms nothing, but sends
// something, has DrainTimeout to answer the disconnect request.
func TestDrainTimeoutOfPeerThatIsHeard(t *testing.T) {
	closeOnPaths(t, nil, func(p *closingPair) {
		client := p.clientProcess.Host()
		if client == p.serverHost {
			return // Shared memory loses nothing.
		}
		p.serverHost.SetFaultsTo(client, reactortest.Faults{Loss: 1})
		p.do(func(c *reactor.Conn) error { return errors.Join(c.Send([]byte("lost"), nil), c.Close()) })
		p.For(shortTime / 2)
		p.client.Send([]byte("heard"))
		p.wantEnd(reactor.ErrDrainTimeout)
		require.Equal(p.t, 1, p.server.Loop(0).Conns())
		p.For(shortTime)
		require.Zero(p.t, p.server.Loop(0).Conns())
	})
}
