//go:build linux

package fdevent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

func newEvent(t *testing.T) *fdevent.Event {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, event.Close()) })
	return event
}

// readable reports whether fd becomes readable within the timeout.
func readable(t *testing.T, fd int, timeout time.Duration) bool {
	ready, err := fdevent.Readable(fd, timeout)
	require.NoError(t, err)
	return ready
}

// TestSignalAndDrain checks that the descriptor is readable from Signal to Drain. Neither
// may allocate memory.
func TestSignalAndDrain(t *testing.T) {
	event := newEvent(t)
	require.False(t, readable(t, event.FD(), 0))
	event.Drain() // Drain must not block.
	for range 2 {
		event.Signal()
		event.Signal()
		require.True(t, readable(t, event.FD(), 0))
		event.Drain()
		require.False(t, readable(t, event.FD(), 0))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		event.Signal()
		event.Drain()
	}))
}
