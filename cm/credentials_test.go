package cm_test

import (
	"fmt"
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
	reason := fmt.Errorf("%w: @x belongs to user 7", cm.ErrUserNotAllowed)
	for _, tt := range []struct {
		ps     cm.PortSpace
		typ    cm.EventType
		status int
		text   string
	}{
		{cm.TCP, cm.Rejected, 8, "connection refused: no listener: user not allowed: @x belongs to user 7"},
		{cm.UDP, cm.Unreachable, 3, "datagram lookup refused: no queue pair: user not allowed: @x belongs to user 7"},
		{cm.TCP, cm.Unreachable, -111, "unreachable: user not allowed: @x belongs to user 7"},
	} {
		ev := failureEvent(t, tt.ps, cm.StateConnecting, cm.TransportEvent{Type: tt.typ, Status: tt.status, Err: reason})
		require.EqualError(t, ev.Err, tt.text)
		require.ErrorIs(t, ev.Err, cm.ErrUserNotAllowed)
		require.ErrorIs(t, ev.Err, cm.ErrRefused)
		require.NoError(t, ev.Ack())
	}
}
