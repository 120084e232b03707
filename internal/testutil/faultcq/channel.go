package faultcq

import (
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Channel is a completion channel with the faults of the device's script. It implements
// verbs.CompChannel.
type Channel struct {
	dev *Device
	// event is readable if readable is true.
	event    *fdevent.Event
	readable bool
	// Open CQs of the channel.
	cqs []*CQ
	// The CQs of the events that Next will return, oldest first.
	ready  []*CQ
	late   []lateEvent
	fail   error // error that Next returns, or nil
	closed bool
}

type lateEvent struct {
	cq *CQ
	// number of ticks until the event arrives
	ticks int
}

// FD returns a descriptor that is readable while there is an event.
func (c *Channel) FD() int { return c.event.FD() }

// Fail makes Next return err. A nil err ends the fault.
func (c *Channel) Fail(err error) {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	c.fail = err
}

// Next removes the oldest event and returns the cookie of its CQ. If there is no event,
// ok is false.
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
	c.updateReadable()
	return q.cookie, true, nil
}

// Join fails.
func (c *Channel) Join(int) error { return unsupported("join") }

// Sleep fails, because Join does.
func (c *Channel) Sleep(time.Duration) (work, input bool, err error) {
	return false, false, verbs.ErrState
}

// Close closes the channel and its descriptor. While a CQ is attached, it returns
// verbs.ErrBusy. A second Close does nothing.
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
	return c.event.Close()
}

// raise causes an event of the CQ q, unless a fault prevents it.
func (c *Channel) raise(q *CQ) {
	d := c.dev
	d.counts.Raised++
	switch {
	case d.random.happens(d.script.Merge) && slices.Contains(c.ready, q):
		d.counts.Merged++
	case d.random.happens(d.script.Drop):
		d.counts.Dropped++
		q.lost = true
	default:
		c.send(q)
		if d.random.happens(d.script.Duplicate) {
			d.counts.Duplicated++
			c.send(q)
		}
	}
	c.updateReadable()
}

// send puts an event of q into the channel, sometimes with a delay.
func (c *Channel) send(q *CQ) {
	d := c.dev
	if d.random.happens(d.script.Delay) {
		d.counts.Delayed++
		c.late = append(c.late, lateEvent{q, d.random.ticks(d.script.MaxDelay)})
		return
	}
	c.ready = append(c.ready, q)
}

// tick advances the virtual time by one tick.
func (c *Channel) tick() {
	remaining := c.late[:0]
	for _, e := range c.late {
		e.ticks--
		if e.ticks > 0 {
			remaining = append(remaining, e)
			continue
		}
		c.ready = append(c.ready, e.cq)
	}
	c.late = remaining
	d := c.dev
	if len(c.cqs) > 0 && d.random.happens(d.script.Spurious) {
		d.counts.Spurious++
		c.ready = append(c.ready, c.cqs[d.random.rng.IntN(len(c.cqs))])
	}
	c.updateReadable()
}

// due reports whether the channel has an event of q. The event may be delayed.
func (c *Channel) due(q *CQ) bool {
	return slices.Contains(c.ready, q) ||
		slices.ContainsFunc(c.late, func(e lateEvent) bool { return e.cq == q })
}

// drop removes a closed CQ and its events from the channel.
func (c *Channel) drop(q *CQ) {
	c.cqs = slices.DeleteFunc(c.cqs, func(o *CQ) bool { return o == q })
	if c.dev.script.KeepStale {
		return
	}
	c.ready = slices.DeleteFunc(c.ready, func(o *CQ) bool { return o == q })
	c.late = slices.DeleteFunc(c.late, func(e lateEvent) bool { return e.cq == q })
	c.updateReadable()
}

// updateReadable makes the descriptor readable if the channel has an event, and otherwise
// unreadable.
func (c *Channel) updateReadable() {
	switch readable := len(c.ready) > 0; {
	case readable == c.readable:
		return
	case readable:
		c.event.Signal()
	default:
		c.event.Drain()
	}
	c.readable = !c.readable
}
