//go:build linux

package connmgr

import (
	"time"
)

// A fakeClock is the clock of a channel in a test. Its time changes only when a test
// calls the method advance.
type fakeClock struct{ now time.Time }

// useClock makes the party's channel use a new fakeClock, and returns that clock.
func useClock(s *party) *fakeClock {
	c := &fakeClock{now: time.Unix(1_000_000, 0)}
	s.tc.clock = func() time.Time { return c.now }
	return c
}

func (c *fakeClock) advance(d time.Duration) { c.now = c.now.Add(d) }
