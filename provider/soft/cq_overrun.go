//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/verbs"

// A CQ that gets more completions than it can hold is in error for good, and so are the
// queue pairs that complete on it (IBTA vol. 1, 10.8.5 and 11.6.3.1). An asynchronous
// event reports the failed CQ, and one more event reports each failed queue pair; see
// ibv_get_async_event(3). The queue pairs are moved to the error state in the next call
// of drive and not at once: the queue pair whose completion did not fit is at that
// moment in the middle of processing a request.

// overflow puts the CQ in error. It is called when a completion is added to a full CQ.
func (c *cq) overflow() {
	if c.overrun {
		return
	}
	c.overrun = true
	c.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncCQError, CQ: c})
	c.failTimer.start(0)
	c.fire()
}

// failNow moves the queue pairs to the error state without waiting for the next call of
// drive. A method that the application calls uses failNow when it finds the CQ in error.
func (c *cq) failNow() {
	if c.failTimer.Running() {
		c.failTimer.stop()
		c.failQPs()
	}
}

// failQPs moves the queue pairs of an overrun CQ to the error state, except those in
// RESET or in error. The completions of their flushed requests do not fit into the CQ
// and are dropped.
func (c *cq) failQPs() {
	for _, q := range c.dev.qpsOn(c) {
		if q.state != verbs.StateReset && q.state != verbs.StateError {
			c.dev.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: q})
			q.enterError()
		}
	}
}

// qpsOn returns the queue pairs whose send queue or receive queue completes on a CQ.
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
