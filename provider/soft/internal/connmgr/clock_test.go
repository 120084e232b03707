//go:build linux

package connmgr

import (
	"time"
)

// A Clock is the clock of a channel in a test. Its time changes only in Advance().
type Clock struct{ Now time.Time }

// UseClock makes a Clock the clock of the party's channel, and returns it.
func UseClock(s *party) *Clock {
	c := &Clock{Now: time.Unix(1_000_000, 0)}
	s.TC.Probe().SetClock(func() time.Time { return c.Now })
	return c
}

func (c *Clock) Advance(d time.Duration) { c.Now = c.Now.Add(d) }
