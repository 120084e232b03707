package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
