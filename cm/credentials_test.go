package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// TestCredentials checks that ID.Credentials asks the transport, but not after Close.
func TestCredentials(t *testing.T) {
	p := requested(t, cm.TCP, cm.MessageParam{})
	_, known := p.id.Credentials()
	require.False(t, known)
	want := cm.Credentials{PID: 4, UID: 5, GID: 6}
	p.fake.peer = &want
	got, known := p.id.Credentials()
	require.True(t, known)
	require.Equal(t, want, got)
	require.NoError(t, p.id.Close())
	got, known = p.id.Credentials()
	require.False(t, known)
	require.Zero(t, got)
}

// anonymousChannel is a channel whose IDs have no credentials.
type anonymousChannel struct{ cm.TransportChannel }

func (c anonymousChannel) OpenChannel() (cm.TransportChannel, error) { return c, nil }

func (c anonymousChannel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	id, err := c.TransportChannel.NewID(ps)
	return struct{ cm.TransportID }{id}, err
}

func TestCredentialsOfTransportWithout(t *testing.T) {
	under, err := (&fakeTransport{}).OpenChannel()
	require.NoError(t, err)
	c, err := cm.OpenChannel(anonymousChannel{under})
	require.NoError(t, err)
	id, err := c.NewID(cm.TCP)
	require.NoError(t, err)
	_, known := id.Credentials()
	require.False(t, known)
}

// TestCauseOfRefusal checks the error when a user is not allowed.
func TestCauseOfRefusal(t *testing.T) {
	for _, tt := range []struct {
		ps    cm.PortSpace
		typ   cm.EventType
		cause cm.UserError
		text  string
	}{
		{cm.TCP, cm.Rejected, cm.UserError{UID: 7}, "connection refused: no listener: the listener does not allow user 7 of this process"},
		{cm.TCP, cm.Rejected, cm.UserError{UID: 7, Name: "@x"}, "connection refused: no listener: @x belongs to user 7, who is not allowed"},
		{cm.UDP, cm.Unreachable, cm.UserError{UID: 7}, "datagram lookup: no queue pair: the listener does not allow user 7 of this process"},
		{cm.TCP, cm.Unreachable, cm.UserError{UID: 7}, "unreachable: the listener does not allow user 7 of this process"},
	} {
		status := int(cm.RejectInvalidServiceID)
		if tt.ps == cm.UDP {
			status = int(cm.SIDRNoQP)
		}
		ev := failureEvent(t, tt.ps, cm.StateConnecting, cm.TransportEvent{Type: tt.typ, Status: status, Err: &tt.cause})
		require.EqualError(t, ev.Err, tt.text)
		var user *cm.UserError
		require.ErrorAs(t, ev.Err, &user)
		require.Equal(t, tt.cause, *user)
		require.NoError(t, ev.Ack())
	}
}

func TestHolderError(t *testing.T) {
	held := &cm.HolderError{Err: cm.ErrAddrInUse, Name: "@x"}
	require.ErrorIs(t, held, cm.ErrAddrInUse)
	require.EqualError(t, held, "address in use: @x is held by an unknown user")
	held.UID, held.Known = 7, true
	require.EqualError(t, held, "address in use: @x is held by user 7")
}
