//go:build linux

package unixcm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A channel's descriptor is readable while events are queued.
func TestChannelFD(t *testing.T) {
	s := newParty(t)
	require.False(t, cmside.Readable(t, s.Channel.FD()))
	first, second := s.ID(cm.TCP), s.ID(cm.TCP)
	for _, id := range []*cm.ID{first, second} {
		require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("127.0.0.1:7"), safety))
	}
	require.True(t, cmside.Readable(t, s.Channel.FD()))
	s.Want(cm.AddrResolved, first)
	require.True(t, cmside.Readable(t, s.Channel.FD()))
	s.Want(cm.AddrResolved, second)
	require.False(t, cmside.Readable(t, s.Channel.FD()))
	s.Quiet()
}

// When an ID is closed, its queued events are dropped.
func TestDestroyDropsEvents(t *testing.T) {
	s := newParty(t)
	id := s.ID(cm.TCP)
	require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("127.0.0.1:7"), safety))
	require.NoError(t, id.Close())
	require.False(t, cmside.Readable(t, s.Channel.FD()))
	s.Quiet()
}

// When a timer is due, its channel's descriptor is readable. The test uses the real clock
// and a real timerfd.
func TestChannelAlarm(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 8)
	require.NoError(t, unix.Listen(unixListenerOf(server).fd, 0))
	first := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	second := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	for _, id := range []*cm.ID{first, second} {
		passive, _ := server.Request(l)
		require.NoError(t, passive.Reject(nil))
		client.WantRejected(id, cm.RejectConsumer, true, nil)
		if id == first {
			// The backlog of the listening socket is full. The second client has started a timer for
			// its next try.
			cmside.AwaitReadable(t, client.Channel.FD())
			client.Quiet()
		}
	}
	// The timerfd may be set although no timer is running.
	cmtest.RequireNoTimer(t, client.TC)
}

func TestChannelClose(t *testing.T) {
	s := newParty(t)
	tc, err := s.M.OpenChannel()
	require.NoError(t, err)
	require.Equal(t, 2, s.Dev.Channels)
	require.NoError(t, tc.Close())
	require.NoError(t, tc.Close())
	require.Equal(t, 1, s.Dev.Channels)
	_, err = tc.NewID(cm.TCP)
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = tc.Next(new(cm.TransportEvent))
	require.ErrorIs(t, err, verbs.ErrClosed)
}
