package faultcq

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Channel is a completion channel whose events suffer the script's faults.
type Channel struct {
	dev    *Device
	bell   *bell
	cqs    []*CQ // open ones
	ready  []*CQ // events that Next will return, oldest first
	late   []lateEvent
	fail   error // of Next
	closed bool
}

type lateEvent struct {
	cq    *CQ
	ticks int // until it comes
}

// FD implements verbs.CompChannel.
func (c *Channel) FD() int { return c.bell.fd }

// Fail makes Next return err, until called with nil.
func (c *Channel) Fail(err error) {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	c.fail = err
}

// Next implements verbs.CompChannel.
func (c *Channel) Next() (cookie uint64, ok bool, err error) {
	c.dev.enter()
	defer c.dev.leave()
	switch {
	case c.closed:
		return 0, false, verbs.ErrClosed
	case c.fail != nil:
		return 0, false, c.fail
	case len(c.ready) == 0:
		return 0, false, nil
	}
	q := c.ready[0]
	c.ready = slices.Delete(c.ready, 0, 1)
	q.taken++
	c.ring()
	return q.cookie, true, nil
}

// Close implements verbs.CompChannel.
func (c *Channel) Close() error {
	c.dev.enter()
	defer c.dev.leave()
	if c.closed {
		return nil
	}
	if len(c.cqs) > 0 {
		return verbs.ErrBusy
	}
	c.closed = true
	c.dev.channels = slices.DeleteFunc(c.dev.channels, func(o *Channel) bool { return o == c })
	return c.bell.close()
}

// raise makes an event of q, with whatever fault befalls it.
func (c *Channel) raise(q *CQ) {
	d := c.dev
	d.counts.Raised++
	switch {
	case d.dice.roll(d.script.Merge) && slices.Contains(c.ready, q):
		d.counts.Merged++
	case d.dice.roll(d.script.Drop):
		d.counts.Dropped++
		q.lost = true
	default:
		c.send(q)
		if d.dice.roll(d.script.Duplicate) {
			d.counts.Duplicated++
			c.send(q)
		}
	}
	c.ring()
}

// send puts an event into the channel, now or late.
func (c *Channel) send(q *CQ) {
	d := c.dev
	if d.dice.roll(d.script.Delay) {
		d.counts.Delayed++
		c.late = append(c.late, lateEvent{q, d.dice.ticks(d.script.MaxDelay)})
		return
	}
	c.ready = append(c.ready, q)
}

// tick moves time on by one.
func (c *Channel) tick() {
	coming := c.late[:0]
	for _, e := range c.late {
		e.ticks--
		if e.ticks > 0 {
			coming = append(coming, e)
			continue
		}
		c.ready = append(c.ready, e.cq)
	}
	c.late = coming
	d := c.dev
	if len(c.cqs) > 0 && d.dice.roll(d.script.Spurious) {
		d.counts.Spurious++
		c.ready = append(c.ready, c.cqs[d.dice.rng.IntN(len(c.cqs))])
	}
	c.ring()
}

// due reports whether an event of q waits, or is still to come.
func (c *Channel) due(q *CQ) bool {
	return slices.Contains(c.ready, q) ||
		slices.ContainsFunc(c.late, func(e lateEvent) bool { return e.cq == q })
}

// drop forgets a CQ that is closed, and its events.
func (c *Channel) drop(q *CQ) {
	c.cqs = slices.DeleteFunc(c.cqs, func(o *CQ) bool { return o == q })
	if c.dev.script.KeepStale {
		return
	}
	c.ready = slices.DeleteFunc(c.ready, func(o *CQ) bool { return o == q })
	c.late = slices.DeleteFunc(c.late, func(e lateEvent) bool { return e.cq == q })
	c.ring()
}

// ring makes the descriptor readable if and only if an event waits.
func (c *Channel) ring() { c.bell.set(len(c.ready) > 0) }
