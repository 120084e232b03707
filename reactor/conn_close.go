package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// flushTimeout is how long a device may take to flush a queue pair.
	flushTimeout = time.Second
	// disconnectTimeout is how long to wait for the connection manager's word when
	// requests fail as they do when the peer has left, and after the word for
	// what came before it.
	disconnectTimeout = 10 * time.Millisecond
)

// drain waits until every send is confirmed. The last of them may not be
// signaled, so a probe goes after them.
func (c *Conn) drain() {
	switch {
	case c.flow.outstanding() == 0:
		c.closeReason.setCause(nil)
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
	c.probeAlone = c.flow.outstanding() == 0
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
	if !c.device.removed && !c.flushing && c.readyToFlush() {
		c.flushing = true
		c.disconnect()
		c.loop.setTimer(&c.stateTimer, flushTimeout)
		if c.flow.probes == 0 {
			c.probe()
		}
		c.postSends()
	}
	if c.device.failure != nil || c.flushing && c.flow.inFlight() == 0 && c.recvs.inFlight() == 0 {
		c.reportClose()
	}
}

// arrived reports whether nothing of the peer's is to be expected any more. Its
// leaving makes requests fail before the connection manager has the word, and
// the word overtakes confirmations: flushing would turn those into failures.
func (c *Conn) readyToFlush() bool {
	if c.disconnectTimedOut || !c.disconnected && !c.closeReason.provisional || c.disconnected && c.cqDrained() {
		return true
	}
	if !c.awaitsDisconnect {
		c.awaitsDisconnect = true
		c.loop.setTimer(&c.stateTimer, disconnectTimeout)
		c.loop.epollEvery = 1
	}
	return false
}

// cqDrained reports whether a poll has found the completion queue empty since the
// peer disconnected.
func (c *Conn) cqDrained() bool {
	if c.queue.emptyPolls != c.emptyPollsAtDisconnect {
		return true
	}
	c.device.consume()
	c.scheduleAdvance()
	return false
}

// onCloseTimeout goes on without what close waits for.
func (c *Conn) onCloseTimeout() {
	if c.flushing {
		c.reportClose()
		return
	}
	c.disconnectTimedOut = true
	c.close()
}

// disconnect tells the peer, and sees to it that the queues are flushed even if
// there is nobody to tell: the state may already be beyond it.
func (c *Conn) disconnect() {
	if c.id.Disconnect() != nil {
		c.loop.recordError(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
}

// finish ends what the application knows of the connection.
func (c *Conn) reportClose() {
	c.failOutstanding()
	err := c.closeReason.closeError(c.stats.Failed > 0)
	c.loop.timers.stop(&c.deadline)
	c.loop.timers.stop(&c.keepalive)
	c.loop.setTimer(&c.stateTimer, c.loop.cfg.DrainTimeout)
	c.state, c.discardMessages = StateParting, true
	if c.peerDone() {
		c.scheduleAdvance()
	}
	c.loop.onClose(c, err)
}

// alone reports whether no goodbye of the peer's is to come any more.
func (c *Conn) peerDone() bool { return c.disconnected || c.device.removed }

// failOutstanding fails what the device has not flushed. The queue pair goes first, for
// memory that is given back must not be the device's any more.
func (c *Conn) failOutstanding() {
	if c.flow.inFlight() > 0 {
		c.loop.recordError(c.id.CloseQP())
	}
	err := firstError(c.closeReason.cause, firstError(c.closeReason.peerErr, ErrPeerClosed))
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
		l.openingConns--
	}
	c.state = StateClosed
	l.timers.stop(&c.stateTimer)
	if c.id != nil {
		l.recordError(c.id.CloseQP())
	}
	if c.device != nil {
		c.releaseResources()
	}
	if c.id != nil {
		l.recordError(c.id.Close())
	}
	l.conns.remove(c.key)
	l.liveConns--
	l.load.Add(-1)
}

// releaseResources gives back what was taken from the nic. The queue pair is closed, so
// the device has forgotten the buffers.
func (c *Conn) releaseResources() {
	for b := c.heldMessages.pop(); b != nil; b = c.heldMessages.pop() {
		c.repost(b)
	}
	for b := c.recvs.take(); b != nil; b = c.recvs.take() {
		c.device.slab.put(b)
	}
	for c.flow.outstanding() > 0 {
		if b := c.sendRequests[c.flow.retire()].buffer; b != nil {
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
