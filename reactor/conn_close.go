package reactor

import (
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// flushTimeout is how long a device may take to flush a queue pair. The number is
	// arbitrary.
	flushTimeout = time.Second
	// disconnectTimeout limits stateAwaitingDisconnected and stateAwaitingEmptyCQ
	// together. Arbitrary.
	disconnectTimeout = 10 * time.Millisecond
)

// advance takes the next step of a connection that is closing or has failed to open,
// unless the connection must still wait.
func (c *Conn) advance() {
	if c.state != stateClosed && c.mustAbort() {
		c.abortNow()
		return
	}
	switch c.state {
	case stateOpenFailed:
		if !c.awaitsDeviceEvents() {
			c.failOpen(c.closeReason.cause)
		}
	case stateDraining:
		c.drain()
	case stateCloseBegun, stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		c.close()
	case stateDisconnecting:
		if c.peerDone() {
			c.enterFor(stateAwaitingLastWQE, lastWQETimeout)
			c.advance()
		}
	case stateAwaitingLastWQE:
		if !c.mayHoldSharedBuffer() {
			c.destroy()
		}
	}
}

// onStateTimer is called when the time limit of the present state has passed. It takes
// the step that leaves the state.
func (c *Conn) onStateTimer() {
	switch c.state {
	case stateDialing, stateConnecting:
		c.onOpenTimeout()
	case stateOpen:
		_ = c.Close() // The handler has not closed the connection after OnStop.
	case stateDraining:
		c.onDrainTimeout()
	case stateOpenFailed:
		c.failOpen(c.closeReason.cause)
	case stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		c.onCloseTimeout()
	case stateDisconnecting:
		c.destroy()
	case stateAwaitingLastWQE:
		c.onLastWQETimeout()
	}
}

// onOpenTimeout is called when opening has taken too long. The loop may have been
// delayed, so onOpenTimeout first handles waiting connection events. One call handles
// only eventBudget events, so the timeout may be repeated.
func (c *Conn) onOpenTimeout() {
	if c.openTimeouts == 0 {
		c.openTimeouts = c.loop.liveConns + 1
	}
	c.openTimeouts--
	handled := (*eventSource)(c.loop).ready(0)
	switch {
	case c.state != stateDialing && c.state != stateConnecting:
	case handled == eventBudget && c.openTimeouts > 0:
		c.repeatTimeout()
	default:
		c.beginClose(fmt.Errorf("%w after %v", cm.ErrTimedOut, c.openTimeout()))
	}
}

// repeatTimeout makes the state's timer fire again, but not in this turn of the loop.
func (c *Conn) repeatTimeout() { c.loop.timers.Set(&c.stateTimer, c.loop.clock.now+1) }

// drain begins to close if every send is confirmed. Otherwise it posts a probe, whose
// completion confirms unsignaled sends.
func (c *Conn) drain() {
	if c.flow.outstanding() == 0 && c.longOutstanding() == 0 {
		c.closeReason.setCause(nil)
		c.enter(stateCloseBegun)
		c.close()
		return
	}
	if !c.stateTimer.Running() {
		c.loop.setTimer(&c.stateTimer, c.loop.cfg.DrainTimeout)
	}
	if c.flow.probes == 0 && c.flow.outstanding() > 0 {
		c.probe()
	}
}

// onDrainTimeout is called at the time limit of stateDraining. It first handles waiting
// confirmations, because the loop may have been delayed.
func (c *Conn) onDrainTimeout() {
	unconfirmed := func() bool { return c.flow.outstanding() > 0 || c.longOutstanding() > 0 }
	done := !unconfirmed() || c.catchUp.poll(c.queue)
	switch {
	case c.state != stateDraining || !unconfirmed():
	case !done:
		c.repeatTimeout()
	default:
		c.loop.stats.DrainTimeouts++
		c.beginClose(ErrDrainTimeout)
	}
}

// probe stages a WRITE of zero bytes, for which the peer needs no memory or receive
// buffer (IBTA vol. 1, 9.7.2 and 9.3.3.1). The completion confirms all earlier requests.
func (c *Conn) probe() {
	c.liveness.probePosted(c.loop.clock.read(), c.flow.outstanding() == 0)
	c.flow.probes++
	wr, r := c.stage(verbs.OpWrite, true)
	wr.RemoteAddr, wr.RKey = 0, 0
	r.kind = requestProbe
}

// close takes the next step in the states from stateCloseBegun to stateFlushing. If the
// device was removed, close() calls OnClose at once, without disconnecting.
func (c *Conn) close() {
	if c.state < stateFlushing && !c.device.removed {
		c.chooseCloseState()
	}
	c.reportIfFlushed()
}

// chooseCloseState enters the next state of a closing connection. If the connection must
// still wait, that is a waiting state. Otherwise it is stateFlushing.
func (c *Conn) chooseCloseState() {
	switch disconnected := c.closeReason.peerErr != nil; {
	case c.awaitsDeviceEvents():
		c.await(stateAwaitingDisconnected)
	case c.device.removed:
		// The device was removed. awaitsDeviceEvents has fetched the event that reports this.
	case !disconnected && c.closeReason.provisional():
		c.await(stateAwaitingDisconnected)
	case disconnected && c.queue.emptyPolls == c.emptyPollsAtDisconnect:
		c.await(stateAwaitingEmptyCQ)
		c.device.consume()
		c.scheduleAdvance()
	default:
		c.enterFlushing()
	}
}

// await enters stateAwaitingDisconnected or stateAwaitingEmptyCQ. Both states share one
// time limit, disconnectTimeout. It begins when the connection leaves stateCloseBegun.
func (c *Conn) await(s connState) {
	if c.state == stateCloseBegun {
		c.catchUp.reset()
		c.loop.setTimer(&c.stateTimer, disconnectTimeout)
		c.loop.epoll.checkSoon()
	}
	c.enterSameLimit(s)
}

// enterFlushing enters stateFlushing and disconnects, which flushes the queues. Then it
// posts a probe, whose completion comes after all received messages.
func (c *Conn) enterFlushing() {
	c.enterFor(stateFlushing, flushTimeout)
	c.catchUp.reset()
	c.disconnect()
	if c.flow.probes == 0 {
		c.probe()
	}
	c.postSends()
}

// reportIfFlushed calls reportClose if the queues are flushed, or if the device has
// failed and no more completions will come.
func (c *Conn) reportIfFlushed() {
	if c.device.failure != nil || c.state == stateFlushing && c.flow.inFlight() == 0 && c.recvs.inFlight() == 0 && c.emptyRecvs.inFlight == 0 {
		c.reportClose()
	}
}

// onCloseTimeout is called at the time limit of stateAwaitingDisconnected,
// stateAwaitingEmptyCQ or stateFlushing. It first handles waiting completions, because
// the loop may have been delayed. Then it takes the next step.
func (c *Conn) onCloseTimeout() {
	if !c.device.removed && c.device.failure == nil && !c.catchUp.poll(c.queue) {
		c.repeatTimeout()
		return
	}
	switch {
	case c.state == stateFlushing:
		c.reportClose()
		return
	case !c.device.removed:
		c.enterFlushing()
	}
	c.reportIfFlushed()
}

// disconnect disconnects the connection, which flushes its queues. After an error it
// moves the queue pair to the error state itself.
func (c *Conn) disconnect() {
	if c.id.Disconnect() != nil {
		c.loop.recordError(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
}

// reportClose moves the connection to stateDisconnecting, fails its outstanding
// requests, and calls OnClose.
func (c *Conn) reportClose() {
	c.failOutstanding()
	err := c.closeReason.closeError(c.stats.Failed > 0)
	c.loop.timers.Stop(&c.deadline)
	c.loop.timers.Stop(&c.keepalive)
	c.enterFor(stateDisconnecting, c.loop.cfg.DrainTimeout)
	if c.peerDone() {
		c.scheduleAdvance()
	}
	c.loop.onClose(c, err)
}

// peerDone reports whether cm.Disconnected was received, or may never come because the
// device was removed.
func (c *Conn) peerDone() bool { return c.closeReason.peerErr != nil || c.device.removed }

// failOutstanding fails the requests that the device has not flushed. It first closes
// the queue pair. After that the device no longer uses their buffers.
func (c *Conn) failOutstanding() {
	if c.flow.inFlight() > 0 {
		c.loop.recordError(c.id.CloseQP())
	}
	err := firstError(c.closeReason.cause, firstError(c.closeReason.peerErr, ErrPeerClosed))
	for c.flow.outstanding() > 0 {
		c.retire(err)
	}
	if c.long != nil {
		c.failLong(err)
	}
}

// failOpen ends a connection that has not opened. It calls OnAcceptError with err, or
// OnDialError with a DialError that contains err.
func (c *Conn) failOpen(err error) {
	c.destroy()
	if c.request != nil {
		c.loop.onAcceptError(c.request, err)
	} else {
		c.loop.onDialError(c, &DialError{Addr: c.remote, Err: err})
	}
}

// destroy releases all resources of the connection. The loop drops completions that are
// still in the CQ: see cq.Queue.Release.
func (c *Conn) destroy() {
	l := c.loop
	if c.state < stateOpen {
		l.openingConns--
	}
	c.enter(stateClosed)
	if c.id != nil {
		l.recordError(c.id.CloseQP())
	}
	if c.qp != nil {
		l.engine.qpOwners.remove(c.qp)
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
	l.engine.heap.connEnded()
}

// releaseResources returns the buffers and the places on the CQ to the loopDevice, after
// the queue pair was closed.
func (c *Conn) releaseResources() {
	for b := c.heldMessages.pop(); b != nil; b = c.heldMessages.pop() {
		c.repost(b)
	}
	for b := c.recvs.take(); b != nil; b = c.recvs.take() {
		c.device.slab.put(b)
	}
	for c.flow.outstanding() > 0 {
		r := c.requests.at(c.flow.retire())
		if r.buffer != nil {
			r.buffer.recycle()
		}
		if r.use != nil {
			r.use.end()
			c.uses.end(int(r.more))
		}
	}
	c.closeWindows()
	if c.long != nil && c.long.memory.peer != nil {
		c.loop.longRow.leave(c.long.memory.peer)
	}
	if c.sharesRecv() {
		c.device.sharedRecv.remove(c.qpNum, c)
	}
	if c.queue != nil {
		c.queue.release(c.places())
	}
}
