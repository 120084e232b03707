package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestAckTwice(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateEstablished)
	p.transportChannel.push(cm.TransportEvent{Type: cm.AddrChange, ID: p.fake})
	ev := p.next()
	require.NoError(t, ev.Ack())
	require.ErrorIs(t, ev.Ack(), verbs.ErrState)
	require.ErrorIs(t, new(cm.Event).Ack(), verbs.ErrState)
	require.NoError(t, p.id.Close(), "the second Ack must not count")
}

func TestEventNames(t *testing.T) {
	var seen []string
	for typ := cm.AddrResolved; typ <= cm.TimewaitExit; typ++ {
		require.NotContains(t, seen, typ.String())
		seen = append(seen, typ.String())
	}
	require.Equal(t, "event 200", cm.EventType(200).String())
}
