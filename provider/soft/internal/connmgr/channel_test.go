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

// Each state and each method: the next state, and whether the event is readable then.
func TestWakerStates(t *testing.T) {
	methods := map[string]func(*waker){
		"wake":               (*waker).wake,
		"begin":              (*waker).begin,
		"take work":          func(w *waker) { w.takeWork() },
		"end":                func(w *waker) { w.end(false) },
		"end with events":    func(w *waker) { w.end(true) },
		"end with work":      func(w *waker) { w.work = true; w.end(false) },
		"end with work done": func(w *waker) { w.work = true; w.takeWork(); w.end(false) },
		"close":              (*waker).close,
	}
	want := map[string][5]wakerState{
		"wake":               {wakerReadable, wakerReadable, wakerDriven, wakerDrivenReadable, wakerClosed},
		"begin":              {wakerDriven, wakerDrivenReadable, wakerDriven, wakerDrivenReadable, wakerClosed},
		"take work":          {wakerQuiet, wakerReadable, wakerDriven, wakerDrivenReadable, wakerClosed},
		"end":                {wakerQuiet, wakerQuiet, wakerQuiet, wakerQuiet, wakerClosed},
		"end with events":    {wakerReadable, wakerReadable, wakerReadable, wakerReadable, wakerClosed},
		"end with work":      {wakerReadable, wakerReadable, wakerReadable, wakerReadable, wakerClosed},
		"end with work done": {wakerQuiet, wakerQuiet, wakerQuiet, wakerQuiet, wakerClosed},
		"close":              {wakerClosed, wakerClosed, wakerClosed, wakerClosed, wakerClosed},
	}
	require.Len(t, methods, len(want))
	for name, method := range methods {
		for from := range want[name] {
			event, err := fdevent.NewEvent()
			require.NoError(t, err)
			w := waker{event: event, state: wakerState(from)}
			readable := w.state == wakerReadable || w.state == wakerDrivenReadable
			if readable {
				event.Signal()
			}
			method(&w)
			to := want[name][from]
			require.Equal(t, to, w.state, "%s in state %d", name, from)
			if to != wakerClosed {
				readable = to == wakerReadable || to == wakerDrivenReadable
			}
			require.Equal(t, readable, cmside.Readable(t, event.FD()), "%s in state %d", name, from)
			require.NoError(t, event.Close())
		}
	}
}

// Work that is queued while the channel is driven is taken, or makes the event readable in
// the end.
func TestWakerWork(t *testing.T) {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer event.Close()
	w := waker{event: event}
	w.begin()
	w.wake()
	require.True(t, w.takeWork())
	require.False(t, w.takeWork())
	w.wake()
	require.False(t, cmside.Readable(t, event.FD()))
	w.end(false)
	require.True(t, cmside.Readable(t, event.FD()))
}
