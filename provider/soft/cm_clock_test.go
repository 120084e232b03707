//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fakeClock is the clock of a channel in a test. It changes only by advance.
type fakeClock struct{ now time.Time }

// useClock sets a fakeClock for the party's channel.
func useClock(s *party) *fakeClock {
	c := &fakeClock{now: time.Unix(1_000_000, 0)}
	s.tc.clock = func() time.Time { return c.now }
	return c
}

func (c *fakeClock) advance(d time.Duration) { c.now = c.now.Add(d) }

func TestDeadlines(t *testing.T) {
	var h deadlines
	var at = func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	ds := make([]deadline, 6)
	for i, ms := range []int{30, 10, 50, 20, 40, 60} {
		h.start(&ds[i], at(ms))
	}
	h.start(&ds[1], at(45)) // set again to a later time
	h.stop(&ds[4])
	h.stop(&ds[4])
	require.Nil(t, h.due(at(19)))
	for _, want := range []int{3, 0, 1, 2} {
		require.Same(t, &ds[want], h.due(at(50)))
	}
	require.Nil(t, h.due(at(50)))

	var other deadlines
	h.move(&ds[5], &other)
	h.move(&ds[0], &other) // ds[0] is not running
	require.Empty(t, h)
	next, ok := other.next()
	require.True(t, ok)
	require.Equal(t, at(60), next)
}
