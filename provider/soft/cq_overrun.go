//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/verbs"

// A CQ that gets more completions than it can hold is in error for good, and so are
// the queue pairs that complete on it (IBTA vol. 1, 10.8.5 and 11.6.3.1). Both are
// told by asynchronous events; see ibv_get_async_event(3). The queue pairs fail when
// the shard is driven next, since the one whose completion found no room is in the
// middle of something.

// overflow: a completion found no room.
func (c *cq) overflow() {
	if c.overrun {
		return
	}
	c.overrun = true
	c.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncCQError, CQ: c})
	c.failTimer.start(0)
	c.fire()
}

// failNow is for a call that finds the CQ in error before the shard was driven.
func (c *cq) failNow() {
	if c.failTimer.running() {
		c.failTimer.stop()
		c.failQPs()
	}
}

// failQPs moves the queue pairs of an overrun CQ to the error state, those that are
// in use and not in error already. Their flushed requests find no room here.
func (c *cq) failQPs() {
	for _, q := range c.dev.qpsOn(c) {
		if q.state != verbs.StateReset && q.state != verbs.StateError {
			c.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: q})
			q.enterError()
		}
	}
}

// qpsOn are the queue pairs that complete on a CQ.
func (d *device) qpsOn(c *cq) (on []*qp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.qps {
		if q.sendCQ == c || q.recvCQ == c {
			on = append(on, q)
		}
	}
	return on
}
