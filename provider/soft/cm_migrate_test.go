//go:build linux

package soft

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newSibling makes another channel of the party's device.
func newSibling(s *party) *party {
	s.t.Helper()
	o := *s
	var err error
	o.ch, err = cm.OpenChannel(s)
	require.NoError(s.t, err)
	o.tc, s.tc = s.tc, o.tc
	s.t.Cleanup(func() {
		if !s.t.Failed() {
			require.NoError(s.t, o.ch.Close())
		}
	})
	return &o
}

func TestMigrateChild(t *testing.T) {
	client, server := newParty(t), newParty(t)
	other := newSibling(server)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.request(l)
	require.NoError(t, passive.Migrate(other.ch))

	server.createQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.want(cm.Established, active)
	other.want(cm.Established, passive)
	require.NoError(t, active.Disconnect())
	other.want(cm.Disconnected, passive)
	server.quiet()
	require.NoError(t, passive.Migrate(server.ch))
	require.NoError(t, passive.Disconnect())
	server.want(cm.TimewaitExit, passive)
	require.Empty(t, handlersOf(other.tc))
}

// The queued events of an ID move with it.
func TestMigratePendingEvents(t *testing.T) {
	s := newParty(t)
	other := newSibling(s)
	l := s.listen(cm.TCP, "127.0.0.1:0", 0)
	id, stays := s.id(cm.TCP), s.id(cm.TCP)
	for _, id := range []*cm.ID{id, stays} {
		require.NoError(t, id.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), safety))
	}
	require.NoError(t, id.Migrate(other.ch))
	awaitReadable(t, other.ch.FD())
	other.want(cm.AddrResolved, id)
	s.want(cm.AddrResolved, stays)
	s.quiet()
	other.quiet()
}

// A listener moves to another channel. Its queued requests move with it, and so do the
// clients that have not sent a request. Later requests arrive at the new channel.
func TestMigrateListener(t *testing.T) {
	client, server := newParty(t), newParty(t)
	other := newSibling(server)
	l := server.listen(cm.TCP, "127.0.0.1:0", 2)
	silent := dialRaw(t, l)
	server.quiet()
	first := client.connecting(cm.TCP, l.LocalAddr(), nil)
	second := client.connecting(cm.TCP, l.LocalAddr(), nil)
	kept, _ := server.request(l)
	require.False(t, server.tc.queue.empty(), "one request waits to be fetched")

	require.NoError(t, l.Migrate(other.ch))
	moved, _ := other.request(l)
	require.Same(t, other.ch, moved.Channel())
	third := client.connecting(cm.TCP, l.LocalAddr(), nil)
	last, _ := other.request(l)
	silent.send(encode(silent.request(l)))
	fourth, _ := other.request(l)

	for _, id := range []*cm.ID{kept, moved, last, fourth} {
		require.NoError(t, id.Reject(nil))
	}
	for _, id := range []*cm.ID{first, second, third} {
		wantRejected(client, id, cm.RejectConsumer, true, nil)
	}
	server.quiet()
}

// The running timer of an ID moves with it.
func TestMigrateTimer(t *testing.T) {
	client, server := newParty(t), newParty(t)
	other := newSibling(client)
	clock := useClock(other)
	client.tc.clock = other.tc.clock
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	id := client.connecting(cm.TCP, l.LocalAddr(), nil)
	require.NoError(t, id.Migrate(other.ch))
	clock.advance(maxServiceTime)
	client.quiet()
	require.Equal(t, statusTimedOut, other.want(cm.Unreachable, id).Status)
}

func TestMigrateRefused(t *testing.T) {
	s, foreign := newParty(t), newParty(t)
	id := newID(s.tc, cm.TCP)
	require.ErrorIs(t, id.Migrate(foreign.tc), verbs.ErrForeign)
	require.ErrorIs(t, id.Migrate(nil), verbs.ErrForeign)
	require.NoError(t, id.Migrate(s.tc))
	closed, err := s.p.OpenChannel()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.ErrorIs(t, id.Migrate(closed), verbs.ErrClosed)
	require.NoError(t, id.Destroy())
}

// IDs migrate between two channels while other goroutines call Next on both channels. No
// call fails.
func TestMigrateConcurrently(t *testing.T) {
	s := newParty(t)
	channels := [2]*party{s, newSibling(s)}
	ids := make([]*id, 4)
	for i := range ids {
		ids[i] = newID(channels[i%2].tc, cm.TCP)
	}
	var work sync.WaitGroup
	for i, id := range ids {
		work.Go(func() {
			for n := range 200 {
				if err := id.Migrate(channels[(i+n)%2].tc); err != nil {
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
				if _, err := c.tc.Next(&ev); err != nil {
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
