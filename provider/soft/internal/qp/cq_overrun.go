//go:build linux

package qp

import "github.com/rdmaloop/rdmaloop/verbs"

// A CQ that has no room for a completion enters an error state, which it never leaves
// (IBTA vol. 1, 10.8.5 and 11.6.3.1; ibv_get_async_event(3)). Its queue pairs fail in
// the next call of shard.drive(). They do not fail at once, because one of them may
// still be processing a request.

// overflow moves a full CQ to the error state.
func (c *cq) overflow() {
	if c.overrun {
		return
	}
	c.overrun = true
	c.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncCQError, CQ: c})
	c.failTimer.Start(0)
	c.fire()
}

// failNow fails the queue pairs of an overrun CQ, if failTimer has not done so yet.
// PollInline calls it before it returns verbs.ErrOverrun.
func (c *cq) failNow() {
	if c.failTimer.Running() {
		c.failTimer.Stop()
		c.failQPs()
	}
}

// failQPs fails the queue pairs of an overrun CQ. Their flushed requests have no
// completions.
func (c *cq) failQPs() {
	for _, q := range c.engine.qpsOn(c) {
		if q.state != verbs.StateReset && q.state != verbs.StateError {
			c.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: q})
			q.enterError()
		}
	}
}
