//go:build linux

package connmgr

import (
	"time"
)

// A fakeClock is a channel's clock in a test. Only advance() changes its time.
type fakeClock struct{ now time.Time }

// useClock gives the party's channel a fakeClock, and returns it.
func useClock(s *party) *fakeClock {
	c := &fakeClock{now: time.Unix(1_000_000, 0)}
	s.tc.clock = func() time.Time { return c.now }
	return c
}

func (c *fakeClock) advance(d time.Duration) { c.now = c.now.Add(d) }
