package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestClose(t *testing.T) {
	everyState(t, func(t *testing.T, ps cm.PortSpace, state cm.State) {
		p := reach(t, ps, state)
		wasClosed := state == cm.StateClosed
		require.NoError(t, p.id.Close())
		require.NoError(t, p.id.Close())
		require.Equal(t, cm.StateClosed, p.id.State())
		require.True(t, p.fake.destroyed)
		if !wasClosed {
			require.Equal(t, []string{"destroy"}, p.fake.calls)
		}
	})
}

// TestCloseBusy checks that an ID in use can not be closed.
func TestCloseBusy(t *testing.T) {
	p := routed(t, cm.TCP)
	p.createQP()
	require.ErrorIs(t, p.id.Close(), verbs.ErrBusy)
	require.NoError(t, p.id.Connect(nil))
	p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
	ev := p.next()

	require.ErrorIs(t, p.id.Close(), verbs.ErrBusy)
	require.NoError(t, p.id.CloseQP())
	require.ErrorIs(t, p.id.Close(), verbs.ErrBusy)
	require.Equal(t, cm.StateEstablished, p.id.State())
	require.NoError(t, ev.Ack())
	require.NoError(t, p.id.Close())
	require.Nil(t, p.id.QP())
}

// TestCloseDropsEvents checks that Close drops events that were not fetched.
func TestCloseDropsEvents(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateConnecting)
	p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
	require.NoError(t, p.id.Close())
	p.requireNoEvent()
}

// TestCloseListener checks that the ID of a request survives its listener.
func TestCloseListener(t *testing.T) {
	l := listening(t, cm.TCP)
	ev, child := l.request(cm.MessageParam{}, nil)
	require.NoError(t, ev.Ack())
	require.NoError(t, l.id.Close())
	require.NoError(t, child.id.Accept(&cm.ConnParam{QPNum: 7}))
	child.deliver(cm.Established)
	require.Equal(t, cm.StateEstablished, child.id.State())
}

func TestCloseReportsTransport(t *testing.T) {
	p := newPeer(t, cm.TCP)
	p.fake.fail = errBroken
	require.ErrorIs(t, p.id.Close(), errBroken)
	require.NoError(t, p.id.Close())
	require.NoError(t, p.channel.Close())
}

func TestGetters(t *testing.T) {
	p := newPeer(t, cm.TCP)
	require.Nil(t, p.id.UserData())
	p.id.SetUserData(7)
	require.Equal(t, 7, p.id.UserData())
	require.Equal(t, verbs.Device(theDevice), p.id.Device())
	require.Equal(t, uint8(1), p.id.Port())
	require.Equal(t, local, p.id.LocalAddr())
	require.Equal(t, remote, p.id.RemoteAddr())

	require.NoError(t, p.id.Close())
	require.Equal(t, 7, p.id.UserData())
	require.Same(t, p.channel, p.id.Channel())
	require.Nil(t, p.id.Device())
	require.Zero(t, p.id.Port())
	require.Zero(t, p.id.LocalAddr())
	require.Zero(t, p.id.RemoteAddr())
	require.Nil(t, p.id.QP())
}
