package cm_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestNextOrder(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateConnecting)
	p.requireNoEvent()
	p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
	p.transportChannel.push(cm.TransportEvent{Type: cm.Disconnected, ID: p.fake, Status: -110})
	require.Equal(t, cm.Established, p.next().Type)
	require.Equal(t, cm.StateEstablished, p.id.State())
	ev := p.next()
	require.Equal(t, cm.Disconnected, ev.Type)
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
	p.requireNoEvent()
}

func TestNextError(t *testing.T) {
	p := newPeer(t, cm.TCP)
	p.transportChannel.fail = errBroken
	_, ok, err := p.channel.Next()
	require.False(t, ok)
	require.ErrorIs(t, err, errBroken)
}

// TestNextUnknownIDs checks that events of unknown IDs are dropped, and that requests
// for unknown listeners are refused.
func TestNextUnknownIDs(t *testing.T) {
	p := newPeer(t, cm.TCP)
	closed, noListener, notListening := p.transportChannel.newID(), p.transportChannel.newID(), p.transportChannel.newID()
	p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: closed})
	p.transportChannel.push(cm.TransportEvent{Type: cm.Established})
	p.transportChannel.push(cm.TransportEvent{Type: cm.ConnectRequest})
	p.transportChannel.push(cm.TransportEvent{Type: cm.ConnectRequest, ID: noListener})
	p.transportChannel.push(cm.TransportEvent{Type: cm.ConnectRequest, ID: notListening, Listener: p.fake})
	p.requireNoEvent()
	require.Empty(t, closed.calls)
	require.True(t, noListener.destroyed)
	require.True(t, notListening.destroyed)
	require.NoError(t, p.id.Close())
}

// TestRequestEvent checks the event and the new ID of a connection request.
func TestRequestEvent(t *testing.T) {
	l := listening(t, cm.TCP)
	l.id.SetUserData("listener")
	sent := []byte("hello")
	param := cm.MessageParam{ResponderResources: 1, InitiatorDepth: 2, FlowControl: true, RetryCount: 3, RNRRetryCount: 4, SRQ: true, QPNum: 5}
	ev, child := l.request(param, sent)
	copy(sent, "jello") // the transport overwrites the private data

	require.Same(t, l.id, ev.Listener)
	require.NotSame(t, l.id, ev.ID)
	require.Equal(t, []byte("hello"), ev.Param.PrivateData)
	ev.Param.PrivateData = nil
	require.Equal(t, param, ev.Param)
	require.NoError(t, ev.Err)

	require.Equal(t, cm.StateRequested, child.id.State())
	require.Equal(t, "listener", child.id.UserData())
	require.Equal(t, cm.TCP, child.id.PortSpace())
	require.Same(t, l.channel, child.id.Channel())
	require.Equal(t, verbs.Device(theDevice), child.id.Device())
	require.Equal(t, local, child.id.LocalAddr())
	require.Equal(t, remote, child.id.RemoteAddr())

	// The event keeps the listener open, but not the new ID.
	require.ErrorIs(t, l.id.Close(), verbs.ErrBusy)
	require.NoError(t, child.id.Close())
	require.NoError(t, ev.Ack())
	require.NoError(t, l.id.Close())
}

// TestLongPrivateData checks that private data longer than MaxPrivateData is not cut.
func TestLongPrivateData(t *testing.T) {
	l := listening(t, cm.TCP)
	sent := bytes.Repeat([]byte{1, 2, 3}, 100)
	ev, _ := l.request(cm.MessageParam{}, sent)
	require.Equal(t, sent, ev.Param.PrivateData)
}

// TestParamOnlyWhereSent checks which events have parameters.
func TestParamOnlyWhereSent(t *testing.T) {
	full := cm.TransportEvent{
		Param: cm.MessageParam{ResponderResources: 9}, UD: cm.UDParam{QPN: 7}, PrivateData: []byte("data"),
	}
	for _, tt := range []struct {
		ps        cm.PortSpace
		from      cm.State
		typ       cm.EventType
		param, ud bool
	}{
		{cm.TCP, cm.StateConnecting, cm.ConnectResponse, true, false},
		{cm.TCP, cm.StateConnecting, cm.Established, true, false},
		{cm.TCP, cm.StateAccepted, cm.Established, false, false},
		{cm.TCP, cm.StateConnecting, cm.Rejected, false, false},
		{cm.TCP, cm.StateEstablished, cm.Disconnected, false, false},
		{cm.UDP, cm.StateConnecting, cm.Established, false, true},
		{cm.UDP, cm.StateConnecting, cm.Unreachable, false, false},
	} {
		p := reach(t, tt.ps, tt.from)
		raw := full
		raw.Type, raw.ID = tt.typ, p.fake
		p.transportChannel.push(raw)
		ev := p.next()
		require.Equal(t, tt.param, ev.Param.ResponderResources == 9, tt.typ)
		require.Equal(t, tt.ud, ev.UD.QPN == 7, tt.typ)
		require.Equal(t, []byte("data"), ev.Param.PrivateData)
	}

	l := listening(t, cm.UDP)
	ev, _ := l.request(full.Param, full.PrivateData)
	require.Zero(t, ev.Param.ResponderResources)
	require.Equal(t, []byte("data"), ev.Param.PrivateData)
}

// TestNextAllocates checks that Next allocates only for private data.
func TestNextAllocates(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateEstablished)
	for length, allocations := range map[int]float64{0: 0, 56: 1} {
		one := []cm.TransportEvent{{Type: cm.AddrChange, ID: p.fake, PrivateData: make([]byte, length)}}
		require.Equal(t, allocations, testing.AllocsPerRun(100, func() {
			p.transportChannel.events = one
			ev, ok, err := p.channel.Next()
			if err != nil || !ok || ev.Ack() != nil {
				t.Error("no event")
			}
		}))
	}
}

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
