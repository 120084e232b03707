package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// flushLimit is how long a device may take to flush a queue pair.
	flushLimit = time.Second
	// goodbyeLimit is how long to wait for the connection manager's word when
	// requests fail as they do when the peer has left, and after the word for
	// what came before it.
	goodbyeLimit = 10 * time.Millisecond
)

// drain waits until every send is confirmed. The last of them may not be
// signaled, so a probe goes after them.
func (c *Conn) drain() {
	switch {
	case c.flow.outstanding() == 0:
		c.end.setCause(nil)
		c.state = StateClosing
		c.close()
	case c.flow.probes == 0:
		c.probe()
	}
}

// probe sends a WRITE of no bytes. It needs neither memory nor a receive buffer
// of the peer's (IBTA vol. 1, 9.7.2 and 9.3.3.1), and its completion says that
// everything before it arrived.
func (c *Conn) probe() {
	c.probedIdle = c.flow.outstanding() == 0
	c.flow.probes++
	wr, r := c.stage(verbs.OpWrite, true)
	wr.RemoteAddr, wr.RKey = 0, 0
	r.probe = true
	c.lastProbe = c.loop.clock.read()
}

// close disconnects, and then waits until the queues are flushed. The probe
// stands behind everything: once it is flushed, all that was received before
// has been delivered, with a shared receive queue too. A device that is gone
// neither disconnects nor flushes.
func (c *Conn) close() {
	if !c.device.gone && !c.flushing && c.arrived() {
		c.flushing = true
		c.disconnect()
		c.loop.setTimer(&c.stateTimer, flushLimit)
		if c.flow.probes == 0 {
			c.probe()
		}
		c.postSends()
	}
	if c.device.broken != nil || c.flushing && c.flow.inFlight() == 0 && c.recvs.inFlight() == 0 {
		c.finish()
	}
}

// arrived reports whether nothing of the peer's is to be expected any more. Its
// leaving makes requests fail before the connection manager has the word, and
// the word overtakes confirmations: flushing would turn those into failures.
func (c *Conn) arrived() bool {
	if c.disconnectTimedOut || !c.disconnected && !c.end.provisional || c.disconnected && c.completionsTaken() {
		return true
	}
	if !c.awaitsDisconnect {
		c.awaitsDisconnect = true
		c.loop.setTimer(&c.stateTimer, goodbyeLimit)
		c.loop.epollEvery = 1
	}
	return false
}

// completionsTaken reports whether a poll has found the completion queue empty since the
// peer disconnected.
func (c *Conn) completionsTaken() bool {
	if c.queue.empty != c.emptyAtDisconnect {
		return true
	}
	c.device.consume()
	c.scheduleAdvance()
	return false
}

// onCloseTimeout goes on without what close waits for.
func (c *Conn) onCloseTimeout() {
	if c.flushing {
		c.finish()
		return
	}
	c.disconnectTimedOut = true
	c.close()
}

// disconnect tells the peer, and sees to it that the queues are flushed even if
// there is nobody to tell: the state may already be beyond it.
func (c *Conn) disconnect() {
	if c.id.Disconnect() != nil {
		c.loop.note(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
}

// finish ends what the application knows of the connection.
func (c *Conn) finish() {
	c.failOutstanding()
	err := c.end.reason(c.stats.Failed > 0)
	c.loop.timers.stop(&c.deadline)
	c.loop.timers.stop(&c.keepalive)
	c.loop.setTimer(&c.stateTimer, c.loop.cfg.DrainTimeout)
	c.state, c.noMessages = StateParting, true
	if c.peerDone() {
		c.scheduleAdvance()
	}
	c.loop.onClose(c, err)
}

// alone reports whether no goodbye of the peer's is to come any more.
func (c *Conn) peerDone() bool { return c.disconnected || c.device.gone }

// failOutstanding fails what the device has not flushed. The queue pair goes first, for
// memory that is given back must not be the device's any more.
func (c *Conn) failOutstanding() {
	if c.flow.inFlight() > 0 {
		c.loop.note(c.id.CloseQP())
	}
	err := first(c.end.cause, first(c.end.peer, ErrPeerClosed))
	for c.flow.outstanding() > 0 {
		c.retire(err)
	}
}

// abandon ends a connection that never opened.
func (c *Conn) failOpen(err error) {
	d, req, l := c.dial, c.request, c.loop
	c.destroy()
	if d != nil {
		l.onDialError(d, err)
	} else {
		l.onAcceptError(req, err)
	}
}

// bury gives everything back. Completions that are still to come find nobody;
// the CQ keeps their places until it has been empty.
func (c *Conn) destroy() {
	l := c.loop
	if c.state < StateOpen {
		l.opening--
	}
	c.state = StateClosed
	l.timers.stop(&c.stateTimer)
	if c.id != nil {
		l.note(c.id.CloseQP())
	}
	if c.device != nil {
		c.returnAll()
	}
	if c.id != nil {
		l.note(c.id.Close())
	}
	l.conns.remove(c.key)
	l.live--
	l.load.Add(-1)
}

// returnAll gives back what was taken from the nic. The queue pair is closed, so
// the device has forgotten the buffers.
func (c *Conn) returnAll() {
	for b := c.early.pop(); b != nil; b = c.early.pop() {
		c.repost(b)
	}
	for b := c.recvs.take(); b != nil; b = c.recvs.take() {
		c.device.slab.put(b)
	}
	for c.flow.outstanding() > 0 {
		if b := c.requests[c.flow.retire()].buffer; b != nil {
			b.recycle()
		}
	}
	if c.device.shared != nil {
		delete(c.device.shared.conns, c.param.QPNum)
	}
	if c.queue != nil {
		c.queue.release()
	}
}
