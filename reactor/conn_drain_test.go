//go:build linux

package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestDrainTimeout checks that a closing connection ends after DrainTimeout if the peer
// confirms nothing, and that its resources are free then, because nothing was heard of the
// peer: see TestDrainTimeoutOfPeerThatIsHeard.
func TestDrainTimeout(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, &reactor.Config{Limits: reactor.Limits{DrainTimeout: shortTime}}, func(t *testing.T, p *worldPair) {
		p.serverProcess.Stop()
		p.do(func() {
			require.NoError(t, p.dialed.Send([]byte("never received"), nil))
			require.NoError(t, p.dialed.Close())
		})
		requireTook(t, shortTime, p.wantClose(t, reactor.ErrDrainTimeout))
		require.EqualValues(t, 1, p.dialed.Stats().Failed)
		require.Zero(t, p.client.Conns())
	})
}

// TestDrainTimeoutOfDelayedLoop checks that a connection closes without an error if its
// sends were confirmed in time, but the loop sees this late.
func TestDrainTimeoutOfDelayedLoop(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, &reactor.Config{Limits: reactor.Limits{DrainTimeout: shortTime}}, func(t *testing.T, p *worldPair) {
		p.do(func() {
			require.NoError(t, p.dialed.Send([]byte("received"), nil))
			require.NoError(t, p.dialed.Close())
			p.delay(p.client, func() { require.EqualValues(t, 1, reactor.OutstandingProbes(p.client)) })
		})
		p.wantClose(t, nil)
		require.Zero(t, p.client.Stats().DrainTimeouts)
	})
}

// TestFlushTimeoutOfDelayedLoop checks that a send that the peer has received does not
// fail, even if the loop sees its completion after the time limit of the flush.
func TestFlushTimeoutOfDelayedLoop(t *testing.T) {
	const sends = 8
	inWorld(t, &hooks{}, &hooks{}, &reactor.Config{Limits: reactor.Limits{CompletionBudget: 1}, Transport: reactor.Transport{SignalEvery: 1}}, func(t *testing.T, p *worldPair) {
		p.do(func() {
			for range sends {
				require.NoError(t, p.dialed.Send([]byte("received"), nil))
			}
			p.delay(p.client, func() { // Meanwhile the server receives all messages.
				require.NoError(t, p.dialed.Abort(nil))
				p.delay(p.client, func() {
					require.Equal(t, reactor.StateFlushing, reactor.InternalState(p.dialed))
					require.Less(t, p.dialed.Stats().Confirmed, uint64(sends))
				})
			})
		})
		p.wantClose(t, reactor.ErrAborted)
		require.EqualValues(t, sends, p.dialed.Stats().Confirmed)
		require.Zero(t, p.dialed.Stats().Failed)
	})
}

// TestDrainTimeoutBeginsWithTheFirstStep checks that DrainTimeout begins when the loop
// asks the peer to confirm the sends.
func TestDrainTimeoutBeginsWithTheFirstStep(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, &reactor.Config{Limits: reactor.Limits{DrainTimeout: shortTime}}, func(t *testing.T, p *worldPair) {
		p.do(func() {
			require.NoError(t, p.dialed.Send([]byte("received"), nil))
			require.NoError(t, p.dialed.Close())
			p.For(delayTime)
		})
		p.wantClose(t, nil)
	})
}
