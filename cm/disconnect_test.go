package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestEarlyDisconnect checks Disconnect before the caller has fetched Established.
func TestEarlyDisconnect(t *testing.T) {
	t.Run("Disconnect does not cancel Connect", func(t *testing.T) {
		for _, state := range []cm.State{cm.StateConnecting, cm.StateResponded} {
			p := reach(t, cm.TCP, state)
			require.NoError(t, p.id.Disconnect())
			require.Equal(t, []string{"disconnect"}, p.fake.calls)
			require.Equal(t, state, p.id.State())
			p.deliver(cm.ConnectError)
			require.NoError(t, p.id.Close())
		}
	})
	t.Run("Disconnect does not answer a request", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateRequested)
		require.ErrorIs(t, p.id.Disconnect(), verbs.ErrState)
		require.Empty(t, p.fake.calls)
		require.NoError(t, p.id.Accept(&cm.ConnParam{QPNum: 7}))
	})
	t.Run("Disconnect before Established", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		require.NoError(t, p.id.Disconnect())
		require.Equal(t, []string{"disconnect"}, p.fake.calls, "the call flushes the queue pair")
		p.fake.fail = errBroken
		p.deliver(cm.Established)
		require.Equal(t, cm.StateDisconnecting, p.id.State())
		require.Equal(t, []string{"disconnect", "disconnect"}, p.fake.calls, "the second call sends the disconnect request")
		p.deliver(cm.Disconnected)
	})
	t.Run("Disconnect before the peer's disconnect request, which overtakes Established", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		require.NoError(t, p.id.Disconnect())
		p.deliver(cm.Disconnected)
		require.Equal(t, cm.StateDisconnected, p.id.State())
		require.Equal(t, []string{"disconnect", "disconnect"}, p.fake.calls, "the second call answers the peer")
	})
	t.Run("Disconnect before the peer refuses the answer", func(t *testing.T) {
		for _, typ := range []cm.EventType{cm.Rejected, cm.Unreachable, cm.ConnectError} {
			p := reach(t, cm.TCP, cm.StateAccepted)
			require.NoError(t, p.id.Disconnect())
			p.deliver(typ)
			require.Equal(t, cm.StateFailed, p.id.State())
			require.NoError(t, p.id.Disconnect())
		}
	})
}

func TestDisconnect(t *testing.T) {
	t.Run("Disconnect twice", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		require.NoError(t, p.id.Disconnect())
		require.NoError(t, p.id.Disconnect())
		require.Equal(t, cm.StateDisconnecting, p.id.State())
		p.deliver(cm.Disconnected)
		require.NoError(t, p.id.Disconnect())
		require.Equal(t, cm.StateDisconnected, p.id.State())
	})
	t.Run("Disconnect after Disconnected answers the peer", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		p.deliver(cm.Disconnected)
		require.Empty(t, p.fake.calls)
		require.NoError(t, p.id.Disconnect())
		require.Equal(t, []string{"disconnect"}, p.fake.calls)
		p.deliver(cm.TimewaitExit)
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
