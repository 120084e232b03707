package cm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var errBroken = errors.New("broken")

func TestOpenChannel(t *testing.T) {
	_, err := cm.OpenChannel(nil)
	requireParam(t, err, "transport", 0, 0)
	_, err = cm.OpenChannel(&fakeTransport{fail: errBroken})
	require.ErrorIs(t, err, errBroken)
	require.EqualError(t, err, "rdma: cm open channel: broken")

	c, _ := open(t)
	require.Equal(t, 42, c.FD())
}

func TestNewID(t *testing.T) {
	c, under := open(t)
	_, err := c.NewID(0x013f)
	requireParam(t, err, "port space", 0x013f, 0)
	require.Empty(t, under.ids)

	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		id, err := c.NewID(ps)
		require.NoError(t, err)
		require.Equal(t, ps, id.PortSpace())
		require.Equal(t, cm.StateIdle, id.State())
		require.Same(t, c, id.Channel())
	}

	under.fail = errBroken
	_, err = c.NewID(cm.TCP)
	require.ErrorIs(t, err, errBroken)
}

func TestChannelClose(t *testing.T) {
	p := newPeer(t, cm.TCP)
	require.ErrorIs(t, p.channel.Close(), verbs.ErrBusy)
	require.Zero(t, p.transportChannel.closed)
	require.NoError(t, p.id.Close())
	require.NoError(t, p.channel.Close())
	require.NoError(t, p.channel.Close())
	require.Equal(t, 1, p.transportChannel.closed)

	_, err := p.channel.NewID(cm.TCP)
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, ok, err := p.channel.Next()
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.False(t, ok)
}

// TestChannelCloseUnacked checks that an unacknowledged event keeps the channel open.
func TestChannelCloseUnacked(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateResolvingAddr)
	p.transportChannel.push(cm.TransportEvent{Type: cm.AddrResolved, ID: p.fake})
	ev := p.next()
	require.ErrorIs(t, p.id.Close(), verbs.ErrBusy)
	require.ErrorIs(t, p.channel.Close(), verbs.ErrBusy)
	require.NoError(t, ev.Ack())
	require.NoError(t, p.id.Close())
	require.NoError(t, p.channel.Close())
}
