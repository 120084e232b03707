package cm_test

import (
	"bytes"
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
			require.NoError(t, p.id.Disconnect(nil))
			require.Equal(t, []string{"disconnect"}, p.fake.calls)
			require.Equal(t, state, p.id.State())
			p.deliver(cm.ConnectError)
			require.NoError(t, p.id.Close())
		}
	})
	t.Run("Disconnect does not answer a request", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateRequested)
		require.ErrorIs(t, p.id.Disconnect(nil), verbs.ErrState)
		require.Empty(t, p.fake.calls)
		require.NoError(t, p.id.Accept(&cm.ConnParam{QPNum: 7}))
	})
	t.Run("Disconnect before Established", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		require.NoError(t, p.id.Disconnect(nil))
		require.Equal(t, []string{"disconnect"}, p.fake.calls, "the call flushes the queue pair")
		p.fake.fail = errBroken
		p.deliver(cm.Established)
		require.Equal(t, cm.StateDisconnecting, p.id.State())
		require.Equal(t, []string{"disconnect", "disconnect"}, p.fake.calls, "the second call sends the disconnect request")
		p.deliver(cm.Disconnected)
	})
	t.Run("Disconnect before the peer's disconnect request, which overtakes Established", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		require.NoError(t, p.id.Disconnect(nil))
		p.deliver(cm.Disconnected)
		require.Equal(t, cm.StateDisconnected, p.id.State())
		require.Equal(t, []string{"disconnect", "disconnect"}, p.fake.calls, "the second call answers the peer")
	})
	t.Run("Disconnect before the peer refuses the answer", func(t *testing.T) {
		for _, typ := range []cm.EventType{cm.Rejected, cm.Unreachable, cm.ConnectError} {
			p := reach(t, cm.TCP, cm.StateAccepted)
			require.NoError(t, p.id.Disconnect(nil))
			p.deliver(typ)
			require.Equal(t, cm.StateFailed, p.id.State())
			require.NoError(t, p.id.Disconnect(nil))
		}
	})
}

func TestDisconnect(t *testing.T) {
	t.Run("Disconnect twice", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		require.NoError(t, p.id.Disconnect(nil))
		require.NoError(t, p.id.Disconnect(nil))
		require.Equal(t, cm.StateDisconnecting, p.id.State())
		p.deliver(cm.Disconnected)
		require.NoError(t, p.id.Disconnect(nil))
		require.Equal(t, cm.StateDisconnected, p.id.State())
	})
	t.Run("Disconnect after Disconnected answers the peer", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		p.deliver(cm.Disconnected)
		require.Empty(t, p.fake.calls)
		require.NoError(t, p.id.Disconnect(nil))
		require.Equal(t, []string{"disconnect"}, p.fake.calls)
		p.deliver(cm.TimewaitExit)
	})
	t.Run("the peer disconnects before Established", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		p.deliver(cm.Disconnected)
		require.NoError(t, p.id.Disconnect(nil))
	})
	t.Run("an ID that was disconnected gets no further event", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateDisconnected)
		p.transportChannel.push(cm.TransportEvent{Type: cm.Disconnected, ID: p.fake})
		p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
		p.requireNoEvent()
	})
}

// withDisconnectData makes the device of p one that sends private data in disconnect requests.
func withDisconnectData(p *peer) *peer {
	p.fake.device = &fakeDevice{caps: verbs.Caps{DisconnectData: true}}
	return p
}

func TestDisconnectData(t *testing.T) {
	t.Run("the transport gets the data", func(t *testing.T) {
		p := withDisconnectData(reach(t, cm.TCP, cm.StateEstablished))
		data := bytes.Repeat([]byte{1}, 221)
		requireParam(t, p.id.Disconnect(data), "private data length", 221, 220)
		require.Empty(t, p.fake.calls)
		require.NoError(t, p.id.Disconnect(data[1:]))
		require.Equal(t, data[1:], p.fake.data)
	})
	t.Run("Disconnected has the data of the peer", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		p.transportChannel.push(cm.TransportEvent{Type: cm.Disconnected, ID: p.fake, PrivateData: []byte("bye")})
		ev := p.next()
		require.Equal(t, cm.MessageParam{PrivateData: []byte("bye")}, ev.Param)
		require.NoError(t, ev.Ack())
	})
	t.Run("before Established the data waits", func(t *testing.T) {
		p := withDisconnectData(reach(t, cm.TCP, cm.StateAccepted))
		data := []byte("bye")
		require.NoError(t, p.id.Disconnect(data))
		clear(data)
		p.fake.data = nil
		p.deliver(cm.Established)
		require.Equal(t, []string{"disconnect", "disconnect"}, p.fake.calls)
		require.Equal(t, []byte("bye"), p.fake.data)
	})
	t.Run("a device that can not send it", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateEstablished)
		err := p.id.Disconnect([]byte("bye"))
		require.ErrorIs(t, err, verbs.ErrNotSupported)
		require.EqualError(t, err, "rdma: cm disconnect: private data of a disconnect request: not supported: the provider's call to disconnect takes none")
		require.Empty(t, p.fake.calls)
		require.Equal(t, cm.StateEstablished, p.id.State())
		require.NoError(t, p.id.Disconnect(nil))
	})
	t.Run("a lookup has no disconnect request", func(t *testing.T) {
		p := withDisconnectData(reach(t, cm.UDP, cm.StateEstablished))
		requireParam(t, p.id.Disconnect([]byte{1}), "private data length", 1, 0)
	})
}
