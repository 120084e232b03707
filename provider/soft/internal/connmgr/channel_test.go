//go:build linux

package connmgr

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
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
	RequireNoTimer(t, client.TC)
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

func TestEventQueue(t *testing.T) {
	var q eventQueue
	a, b := &ID{}, &ID{}
	for n := range 6 {
		q.push(cm.TransportEvent{Status: n, ID: []*ID{a, b}[n%2]})
	}
	q.push(cm.TransportEvent{Status: 6, ID: b, Listener: a})
	var ev cm.TransportEvent
	require.True(t, q.pop(&ev))
	require.Equal(t, 0, ev.Status)
	var taken []int
	for _, ev := range q.extract(a) {
		taken = append(taken, ev.Status)
	}
	require.Equal(t, []int{2, 4, 6}, taken)
	for _, want := range []int{1, 3, 5} {
		require.True(t, q.pop(&ev))
		require.Equal(t, want, ev.Status)
	}
	require.False(t, q.pop(&ev))
	require.True(t, q.empty())
}

// When all events in the queue belong to destroyed IDs, the queue is cleared.
func TestEventQueueDrop(t *testing.T) {
	var q eventQueue
	ids := []*ID{{}, {}, {}}
	for n := range 9 {
		q.push(cm.TransportEvent{Status: n, ID: ids[n%3]})
	}
	q.drop(ids[0])
	var ev cm.TransportEvent
	require.True(t, q.pop(&ev))
	require.Equal(t, 1, ev.Status)
	q.drop(ids[1])
	for _, want := range []int{2, 5, 8} {
		require.False(t, q.empty())
		require.True(t, q.pop(&ev))
		require.Equal(t, want, ev.Status)
	}
	require.True(t, q.empty())
	require.False(t, q.pop(&ev))
	q.push(cm.TransportEvent{ID: ids[2]})
	q.drop(ids[2])
	require.True(t, q.empty())
	require.Empty(t, q.events)
	require.Equal(t, cm.TransportEvent{}, q.events[:1][0], "the queue has no reference to the IDs")
}

// New work does not make the event readable while the channel is driven. If work is left,
// end() makes it readable.
func TestWakerSignalsOnlyWhenNeeded(t *testing.T) {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer event.Close()
	w := waker{event: event}
	w.begin()
	w.wake()
	require.False(t, cmside.Readable(t, event.FD()))
	require.True(t, w.takeWork())
	w.wake()
	require.False(t, cmside.Readable(t, event.FD()))
	w.end(false)
	require.True(t, cmside.Readable(t, event.FD()))

	require.True(t, w.takeWork())
	w.end(false)
	require.False(t, cmside.Readable(t, event.FD()))
	w.wake()
	require.True(t, cmside.Readable(t, event.FD()), "the goroutine of the channel may sleep")
}
