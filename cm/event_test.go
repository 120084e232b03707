package cm_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestAckTwice checks that a second Ack does not acknowledge another event.
func TestAckTwice(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateEstablished)
	fetch := func() *cm.Event {
		p.transportChannel.push(cm.TransportEvent{Type: cm.AddrChange, ID: p.fake})
		return p.next()
	}
	first := fetch()
	twin := *first
	require.NoError(t, first.Ack())
	second := fetch()
	for _, ev := range []*cm.Event{first, &twin, new(cm.Event)} {
		err := ev.Ack()
		require.ErrorIs(t, err, verbs.ErrState)
		require.ErrorContains(t, err, "cm ack event")
		require.ErrorIs(t, p.id.Close(), verbs.ErrBusy)
	}
	twin = *second
	require.NoError(t, twin.Ack(), "a copy can be acknowledged in place of the event")
	require.ErrorIs(t, second.Ack(), verbs.ErrState)
	require.NoError(t, p.id.Close())
	require.NoError(t, p.channel.Close())
	require.ErrorIs(t, first.Ack(), verbs.ErrState)
}

// TestEventAfterAck checks that an event keeps its values when the transport reuses the
// memory.
func TestEventAfterAck(t *testing.T) {
	l := listening(t, cm.TCP)
	lent := bytes.Repeat([]byte{1}, 56)
	first, _ := l.request(cm.MessageParam{QPNum: 5}, lent)
	kept := *first
	require.NoError(t, first.Ack())
	copy(lent, "other")
	second, _ := l.request(cm.MessageParam{}, lent)
	require.NoError(t, second.Ack())
	require.NoError(t, l.id.Close())

	require.Equal(t, kept, *first)
	require.Equal(t, uint32(5), first.Param.QPNum)
	require.Equal(t, bytes.Repeat([]byte{1}, 56), first.Param.PrivateData)
	require.Zero(t, second.Param.QPNum)
}

func TestEventNames(t *testing.T) {
	var seen []string
	for typ := cm.AddrResolved; typ <= cm.TimewaitExit; typ++ {
		require.NotContains(t, seen, typ.String())
		seen = append(seen, typ.String())
	}
	require.Equal(t, "event 200", cm.EventType(200).String())
}
