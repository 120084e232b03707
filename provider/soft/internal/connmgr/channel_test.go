//go:build linux

package connmgr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
)

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
