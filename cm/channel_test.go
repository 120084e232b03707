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

// withSecondChannel returns a copy of p with a new channel of the same transport.
func withSecondChannel(p *peer) *peer {
	p.t.Helper()
	c, err := cm.OpenChannel(p.transportChannel.transport)
	require.NoError(p.t, err)
	channels := p.transportChannel.transport.channels
	return &peer{t: p.t, ps: p.ps, channel: c, id: p.id, fake: p.fake, transportChannel: channels[len(channels)-1]}
}

// TestMigrate checks that an ID takes its unfetched events along.
func TestMigrate(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateConnecting)
	q := withSecondChannel(p)
	p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
	require.NoError(t, p.id.Migrate(q.channel))
	require.Same(t, q.channel, p.id.Channel())

	p.requireNoEvent()
	ev := q.next()
	require.Same(t, p.id, ev.ID)
	require.NoError(t, ev.Ack())
	q.deliver(cm.Disconnected)

	require.NoError(t, p.channel.Close(), "the channel has no IDs left")
	require.ErrorIs(t, q.channel.Close(), verbs.ErrBusy)
	require.NoError(t, p.id.Close())
	require.NoError(t, q.channel.Close())
}

// TestMigrateRequest checks that a listener can not migrate while a request is not
// acknowledged, but the new ID can.
func TestMigrateRequest(t *testing.T) {
	l := listening(t, cm.TCP)
	ev, child := l.request(cm.MessageParam{}, nil)
	to := withSecondChannel(child)
	require.ErrorIs(t, l.id.Migrate(to.channel), verbs.ErrBusy)
	require.NoError(t, child.id.Migrate(to.channel))
	require.NoError(t, ev.Ack())
	require.NoError(t, child.id.Accept(&cm.ConnParam{QPNum: 7}))
	to.deliver(cm.Established)

	require.NoError(t, l.id.Migrate(to.channel))
	l.channel, l.transportChannel = to.channel, to.transportChannel
	ev, child = l.request(cm.MessageParam{}, nil)
	require.Same(t, to.channel, child.id.Channel())
	require.NoError(t, ev.Ack())
}

func TestMigrateChecks(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateConnecting)
	requireParam(t, p.id.Migrate(nil), "channel", 0, 0)
	stranger, _ := open(t)
	require.ErrorIs(t, p.id.Migrate(stranger), verbs.ErrForeign)
	closed := withSecondChannel(p)
	require.NoError(t, closed.channel.Close())
	require.ErrorIs(t, p.id.Migrate(closed.channel), verbs.ErrClosed)
	require.NoError(t, p.id.Migrate(p.channel), "the ID is already on this channel")

	p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
	ev := p.next()
	to := withSecondChannel(p)
	require.ErrorIs(t, p.id.Migrate(to.channel), verbs.ErrBusy)
	require.NoError(t, ev.Ack())
	require.Empty(t, p.fake.calls)

	p.fake.fail = errBroken
	require.ErrorIs(t, p.id.Migrate(to.channel), errBroken)
	require.Same(t, p.channel, p.id.Channel())
	require.NoError(t, to.channel.Close(), "the ID was not moved")
	p.deliver(cm.Disconnected)
}
