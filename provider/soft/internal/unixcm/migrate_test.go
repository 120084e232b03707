//go:build linux

package unixcm

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newSibling returns a party with another event channel of the same device.
func newSibling(s *party) *party {
	s.T.Helper()
	side := *s.Side
	o := party{Party: &cmtest.Party{Side: &side, M: s.M, Dev: s.Dev, TC: s.TC}, unix: s.unix}
	var err error
	o.Channel, err = cm.OpenChannel(s.Party)
	require.NoError(s.T, err)
	o.TC, s.TC = s.TC, o.TC
	s.T.Cleanup(func() {
		if !s.T.Failed() {
			require.NoError(s.T, o.Channel.Close())
		}
	})
	return &o
}

func TestMigrateChild(t *testing.T) {
	client, server := newParty(t), newParty(t)
	other := newSibling(server)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	require.NoError(t, passive.Migrate(other.Channel))

	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, active)
	other.Want(cm.Established, passive)
	require.NoError(t, active.Disconnect(nil))
	other.Want(cm.Disconnected, passive)
	server.Quiet()
	require.NoError(t, passive.Migrate(server.Channel))
	require.NoError(t, passive.Disconnect(nil))
	server.Want(cm.TimewaitExit, passive)
	require.Empty(t, handlersOf(other.TC))
}

// An ID that migrates takes its queued events to the other channel.
func TestMigratePendingEvents(t *testing.T) {
	s := newParty(t)
	other := newSibling(s)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	id, stays := s.ID(cm.TCP), s.ID(cm.TCP)
	for _, id := range []*cm.ID{id, stays} {
		require.NoError(t, id.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), safety))
	}
	require.NoError(t, id.Migrate(other.Channel))
	cmside.AwaitReadable(t, other.Channel.FD())
	other.Want(cm.AddrResolved, id)
	s.Want(cm.AddrResolved, stays)
	s.Quiet()
	other.Quiet()
}

// A listener moves to another channel together with its queued requests and its waiting
// clients. Later requests arrive on the new channel.
func TestMigrateListener(t *testing.T) {
	client, server := newParty(t), newParty(t)
	other := newSibling(server)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 2)
	silent := dialRaw(t, l)
	server.Quiet()
	first := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	second := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	kept, _ := server.Request(l)
	require.NotEmpty(t, server.TC.Probe().Queued(), "one request waits to be fetched")

	require.NoError(t, l.Migrate(other.Channel))
	moved, _ := other.Request(l)
	require.Same(t, other.Channel, moved.Channel())
	third := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	last, _ := other.Request(l)
	silent.send(encode(silent.request(l)))
	fourth, _ := other.Request(l)

	for _, id := range []*cm.ID{kept, moved, last, fourth} {
		require.NoError(t, id.Reject(nil))
	}
	for _, id := range []*cm.ID{first, second, third} {
		client.WantRejected(id, cm.RejectConsumer, true, nil)
	}
	server.Quiet()
}

// If an ID migrates to another channel, its timer migrates too.
func TestMigrateTimer(t *testing.T) {
	client, server := newParty(t), newParty(t)
	other := newSibling(client)
	clock := cmtest.UseClock(other.TC)
	client.TC.Probe().SetClock(other.TC.Probe().Clock())
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	id := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	require.NoError(t, id.Migrate(other.Channel))
	clock.Advance(connmgr.MaxServiceTime)
	client.Quiet()
	require.Equal(t, connmgr.StatusTimedOut, other.Want(cm.Unreachable, id).Status)
}

func TestMigrateRefused(t *testing.T) {
	s, foreign := newParty(t), newParty(t)
	id, err := s.TC.NewID(cm.TCP)
	require.NoError(t, err)
	require.ErrorIs(t, id.Migrate(foreign.TC), verbs.ErrForeign)
	require.ErrorIs(t, id.Migrate(nil), verbs.ErrForeign)
	require.NoError(t, id.Migrate(s.TC))
	closed, err := s.M.OpenChannel()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.ErrorIs(t, id.Migrate(closed), verbs.ErrClosed)
	require.NoError(t, id.Destroy())
}

// IDs migrate between two channels while other goroutines call Next on both channels. No
// call may fail.
func TestMigrateConcurrently(t *testing.T) {
	s := newParty(t)
	channels := [2]*party{s, newSibling(s)}
	ids := make([]cm.TransportID, 4)
	for i := range ids {
		var err error
		ids[i], err = channels[i%2].TC.NewID(cm.TCP)
		require.NoError(t, err)
	}
	var work sync.WaitGroup
	for i, id := range ids {
		work.Go(func() {
			for n := range 200 {
				if err := id.Migrate(channels[(i+n)%2].TC); err != nil {
					t.Error(err)
				}
				_ = id.ResolveRoute(safety)
			}
		})
	}
	for _, c := range channels {
		work.Go(func() {
			var ev cm.TransportEvent
			for range 400 {
				if _, err := c.TC.Next(&ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	for _, id := range ids {
		require.NoError(t, id.Destroy())
	}
}

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
	require.NoError(t, unix.Listen(listenerOf(server).fd, 0))
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
