//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func newEvent(t *testing.T) *fdevent.Event {
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, event.Close()) })
	return event
}

// TestSleepErrors checks the states in which Join and Sleep fail.
func TestSleepErrors(t *testing.T) {
	d, event := newFakeHost(t, 1), newEvent(t)
	for progress, want := range map[verbs.Progress]error{verbs.ProgressAuto: verbs.ErrNotSupported, verbs.ProgressManual: nil} {
		ch, err := d.CreateCompChannel(&verbs.CompChannelAttr{Progress: progress})
		require.NoError(t, err)
		_, _, err = ch.Sleep(0)
		require.ErrorIs(t, err, verbs.ErrState)
		require.ErrorIs(t, ch.Join(event.FD()), want)
		if want == nil {
			require.ErrorIs(t, ch.Join(event.FD()), verbs.ErrState)
		}
		require.NoError(t, ch.Close())
		_, _, err = ch.Sleep(0)
		require.ErrorIs(t, err, verbs.ErrClosed)
	}
}

// TestChannelAfterJoin checks that the next channel of the shard has a descriptor that
// becomes readable.
func TestChannelAfterJoin(t *testing.T) {
	d, event := newFakeHost(t, 1), newEvent(t)
	ch, err := d.createCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	require.NoError(t, err)
	require.NoError(t, ch.Join(event.FD()))
	ch.shard.wake.signal()
	require.False(t, cmside.Readable(t, ch.FD()))
	require.NoError(t, ch.Close())

	next, err := d.createCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	require.NoError(t, err)
	require.Same(t, ch.shard, next.shard)
	require.True(t, cmside.Readable(t, next.FD()))
	event.Signal()
	_, _, err = next.Next()
	require.NoError(t, err)
	require.False(t, cmside.Readable(t, next.FD()), "the descriptor was removed with the first channel")
	require.NoError(t, next.Close())
}
