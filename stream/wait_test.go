package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

// TestDeadline checks when the channel of a deadline is closed.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notified := 0
		d := newDeadline(func() { notified++ })
		require.False(t, turns.IsClosed(d.wait()))
		d.set(time.Now().Add(-time.Hour))
		require.True(t, turns.IsClosed(d.wait()))
		d.set(time.Now().Add(time.Hour))
		require.False(t, turns.IsClosed(d.wait()))
		d.set(time.Now().Add(time.Microsecond))
		<-d.wait()
		synctest.Wait()
		require.Equal(t, 1, notified)
		d.set(time.Time{})
		require.False(t, turns.IsClosed(d.wait()))
		d.set(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		require.False(t, turns.IsClosed(d.wait()), "a time after the largest duration")
		d.set(time.Time{})
		require.Equal(t, 1, notified)
	})
}

// TestDeadlineReplaced checks that replacing a deadline at the moment when it passes does
// not wait for ever, and that the new deadline holds.
func TestDeadlineReplaced(t *testing.T) {
	d := newDeadline(func() {})
	for range 2000 {
		d.set(time.Now().Add(time.Microsecond))
		d.set(time.Now().Add(time.Hour))
		require.False(t, turns.IsClosed(d.wait()))
	}
	d.set(time.Time{})
}

// TestSpinTime checks that polling without success halves the time, and that a short
// sleep restores it.
func TestSpinTime(t *testing.T) {
	const limit = 8 * minSpin
	s := spinTime{limit: limit, budget: limit}
	for _, want := range []time.Duration{limit / 2, limit / 4, limit / 8, 0, 0} {
		s.failed(limit)
		require.Equal(t, want, s.budget)
	}
	s.failed(limit - 1)
	require.Equal(t, limit, s.budget)
	s.failed(limit)
	s.succeeded()
	require.Equal(t, limit, s.budget)
	never := spinTime{}
	never.failed(time.Hour)
	require.Zero(t, never.budget)
}
