//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// Each state and each method: the next state, and whether the event is readable then. The
// event is readable before in wakeSignaled only.
func TestWakeStates(t *testing.T) {
	methods := map[string]func(*wake){
		"signal": (*wake).signal, "driven": (*wake).driven, "ready": (*wake).onReady, "join": (*wake).join, "leave": (*wake).leave,
	}
	want := map[string][4]wakeState{
		"signal": {wakeSignaled, wakeSignaled, wakeJoinedSignaled, wakeJoinedSignaled},
		"driven": {wakeQuiet, wakeSignaled, wakeJoined, wakeJoined},
		"ready":  {wakeQuiet, wakeQuiet, wakeJoined, wakeJoined},
		"join":   {wakeJoined, wakeJoinedSignaled, wakeJoined, wakeJoinedSignaled},
		"leave":  {wakeQuiet, wakeSignaled, wakeQuiet, wakeSignaled},
	}
	for name, method := range methods {
		for from := range want[name] {
			event, err := fdevent.NewEvent()
			require.NoError(t, err)
			w := wake{state: wakeState(from), event: event}
			if w.state == wakeSignaled {
				event.Signal()
			}
			method(&w)
			to := want[name][from]
			require.Equal(t, to, w.state, "%s in state %d", name, from)
			require.Equal(t, to == wakeSignaled || to == wakeJoinedSignaled, w.due())
			require.Equal(t, to == wakeJoined || to == wakeJoinedSignaled, w.joined())
			readable, err := fdevent.Readable(event.FD(), 0)
			require.NoError(t, err)
			if to == wakeSignaled {
				require.True(t, readable, "%s in state %d", name, from)
			} else if to == wakeQuiet {
				require.False(t, readable, "%s in state %d", name, from)
			}
			require.NoError(t, event.Close())
		}
	}
}

// While a channel has an event, the event stays readable, and the state as it is.
func TestWakeWithQueuedEvents(t *testing.T) {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	defer event.Close()
	w := wake{event: event, events: 1}
	w.signal()
	w.onReady()
	require.Equal(t, wakeSignaled, w.state)
	readable, err := fdevent.Readable(event.FD(), 0)
	require.NoError(t, err)
	require.True(t, readable)
}
