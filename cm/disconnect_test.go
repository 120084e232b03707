package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestDisconnect(t *testing.T) {
	t.Run("Disconnect does not cancel Connect", func(t *testing.T) {
		for _, state := range []cm.State{cm.StateConnecting, cm.StateResponded, cm.StateRequested, cm.StateAccepted} {
			p := reach(t, cm.TCP, state)
			require.ErrorIs(t, p.id.Disconnect(), verbs.ErrState)
			require.Empty(t, p.fake.calls)
			require.NoError(t, p.id.Close())
		}
	})
	t.Run("Disconnect after Disconnected answers the peer", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		p.deliver(cm.Disconnected)
		require.Empty(t, p.fake.calls)
		require.NoError(t, p.id.Disconnect())
		require.Equal(t, []string{"disconnect"}, p.fake.calls)
		p.deliver(cm.TimewaitExit)
	})
	t.Run("both sides disconnect at once", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		require.NoError(t, p.id.Disconnect())
		require.ErrorIs(t, p.id.Disconnect(), verbs.ErrState)
		p.deliver(cm.Disconnected)
		require.NoError(t, p.id.Disconnect())
	})
	t.Run("the peer disconnects before Established", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		p.deliver(cm.Disconnected)
		require.NoError(t, p.id.Disconnect())
	})
	t.Run("an ID that was disconnected gets no further event", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateDisconnected)
		p.transportChannel.push(cm.TransportEvent{Type: cm.Disconnected, ID: p.fake})
		p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
		p.requireNoEvent()
	})
}
