//go:build linux

package connmgr

import (
	"time"
)

// A fakeClock is the clock of a channel in a test. Its time changes only in advance().
type fakeClock struct{ now time.Time }

// useClock makes a fakeClock the clock of the party's channel, and returns it.
func useClock(s *party) *fakeClock {
	c := &fakeClock{now: time.Unix(1_000_000, 0)}
	s.tc.Probe().SetClock(func() time.Time { return c.now })
	return c
}

func (c *fakeClock) advance(d time.Duration) { c.now = c.now.Add(d) }
