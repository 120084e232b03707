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
	// disconnectTimeout limits the sum of two waits of a connection that closes. If a
	// request has failed with an error that a disconnect of the peer usually causes, the
	// connection first waits for cm.Disconnected (stateAwaitingDisconnected). When it
	// has received cm.Disconnected, it waits for the completions of earlier requests
	// (stateAwaitingEmptyCQ). The number is arbitrary.
	disconnectTimeout = 10 * time.Millisecond
)

// advance takes the next step of a connection that is closing or has failed to open. It
// does nothing if the connection must still wait before this step. When the loop aborts
// all connections, advance calls abortNow instead.
func (c *Conn) advance() {
	if c.loop.state >= loopAborting && c.state != stateClosed {
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
	case stateDraining:
		c.onDrainTimeout()
	case stateOpenFailed:
		c.failOpen(c.closeReason.cause)
	case stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		c.onCloseTimeout()
	case stateDisconnecting:
		c.destroy()
	}
}

// onOpenTimeout is called when the time limit of stateDialing and stateConnecting has
// passed. If the loop was delayed, an event that has arrived in time may not have been
// handled yet. So onOpenTimeout first handles the waiting events of the loop's
// connections. If the connection is still opening then, onOpenTimeout ends it with
// cm.ErrTimedOut. If there may be more events, the next turn of the loop calls
// onOpenTimeout again.
func (c *Conn) onOpenTimeout() {
	handled := (*eventSource)(c.loop).ready(0)
	switch {
	case c.state != stateDialing && c.state != stateConnecting:
	case handled == eventBudget:
		c.loop.timers.Set(&c.stateTimer, c.loop.clock.now)
	default:
		c.beginClose(fmt.Errorf("%w after %v", cm.ErrTimedOut, c.openTimeout()))
	}
}

// drain takes the next step of a connection in stateDraining. If every send is
// confirmed, drain begins to close the connection. Otherwise it posts a probe after the
// sends. The last sends may not be signaled, and the completion of the probe confirms
// them. The first call of drain also begins the time limit. Conn.Close does not begin
// it, because a loop that closes thousands of connections may call drain much later.
func (c *Conn) drain() {
	if c.flow.outstanding() == 0 {
		c.closeReason.setCause(nil)
		c.enter(stateCloseBegun)
		c.close()
		return
	}
	if !c.stateTimer.Running() {
		c.loop.setTimer(&c.stateTimer, c.loop.cfg.DrainTimeout)
	}
	if c.flow.probes == 0 {
		c.probe()
	}
}

// onDrainTimeout is called when the time limit of stateDraining has passed. A loop that
// closes thousands of connections may be delayed by more than the time limit. So
// onDrainTimeout first handles the confirmations that have arrived meanwhile, in several
// calls if necessary. If they do not confirm every send, onDrainTimeout ends the
// connection with ErrDrainTimeout. If every send is confirmed, it does nothing, because
// the next call of drain closes the connection.
func (c *Conn) onDrainTimeout() {
	done := c.flow.outstanding() == 0 || c.catchUp.poll(c.queue)
	switch {
	case c.state != stateDraining || c.flow.outstanding() == 0:
	case !done:
		c.loop.timers.Set(&c.stateTimer, c.loop.clock.now)
	default:
		c.loop.stats.DrainTimeouts++
		c.beginClose(ErrDrainTimeout)
	}
}

// probe stages a WRITE of zero bytes, which needs neither memory nor a receive buffer of
// the peer (IBTA vol. 1, 9.7.2 and 9.3.3.1). The completion of the WRITE confirms all
// requests before it.
func (c *Conn) probe() {
	c.liveness.probePosted(c.loop.clock.read(), c.flow.outstanding() == 0)
	c.flow.probes++
	wr, r := c.stage(verbs.OpWrite, true)
	wr.RemoteAddr, wr.RKey = 0, 0
	r.probe = true
}

// close takes the next step of a connection that is in one of the states from
// stateCloseBegun to stateFlushing. If the device was removed, close calls OnClose
// without disconnecting and without waiting.
func (c *Conn) close() {
	if c.state < stateFlushing && !c.device.removed {
		c.chooseCloseState()
	}
	c.reportIfFlushed()
}

// chooseCloseState chooses the next state of a connection that is in one of the states
// from stateCloseBegun to stateAwaitingEmptyCQ, and enters this state. A connection that
// must wait enters the state in which it waits. A connection that need not wait enters
// stateFlushing.
func (c *Conn) chooseCloseState() {
	switch disconnected := c.closeReason.peerErr != nil; {
	case c.awaitsDeviceEvents():
		c.await(stateAwaitingDisconnected)
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

// await enters the state s, which is stateAwaitingDisconnected or stateAwaitingEmptyCQ.
// A connection may pass through both states. One time limit, disconnectTimeout, applies
// to the time in both states together; it begins when the connection leaves
// stateCloseBegun.
func (c *Conn) await(s connState) {
	if c.state == stateCloseBegun {
		c.loop.setTimer(&c.stateTimer, disconnectTimeout)
		c.loop.epoll.checkSoon()
	}
	c.enterSameLimit(s)
}

// enterFlushing enters stateFlushing and disconnects, which flushes the queues. It also
// posts a probe after all other requests. When the probe has completed, the completions
// of all messages that were received before the flush have been polled. With a shared
// receive queue, the probe is the only sign of this.
func (c *Conn) enterFlushing() {
	c.enterFor(stateFlushing, flushTimeout)
	c.disconnect()
	if c.flow.probes == 0 {
		c.probe()
	}
	c.postSends()
}

// reportIfFlushed calls reportClose in two cases: the queues are flushed, or the device
// has failed. After a failure of the device no more completions are expected.
func (c *Conn) reportIfFlushed() {
	if c.device.failure != nil || c.state == stateFlushing && c.flow.inFlight() == 0 && c.recvs.inFlight() == 0 {
		c.reportClose()
	}
}

// onCloseTimeout is called when the time limit of stateAwaitingDisconnected,
// stateAwaitingEmptyCQ or stateFlushing has passed. It takes the next step as if the
// wait had ended.
func (c *Conn) onCloseTimeout() {
	if c.state == stateFlushing {
		c.reportClose()
		return
	}
	if !c.device.removed {
		c.enterFlushing()
	}
	c.reportIfFlushed()
}

// disconnect disconnects the connection, which flushes its queues. If the connection
// manager returns an error, it may have left the queue pair unchanged, so disconnect
// moves the queue pair to the error state itself.
func (c *Conn) disconnect() {
	if c.id.Disconnect() != nil {
		c.loop.recordError(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
}

// reportClose fails the outstanding requests and calls OnClose. The connection is then in
// stateDisconnecting.
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

// peerDone reports whether the connection need not wait for cm.Disconnected any more:
// the event was received, or the device was removed, so that the event may never come.
func (c *Conn) peerDone() bool { return c.closeReason.peerErr != nil || c.device.removed }

// failOutstanding completes, with an error, the requests that the device has not
// flushed. If there are any, it first closes the queue pair, so that the device does not
// use the buffers of the requests any more.
func (c *Conn) failOutstanding() {
	if c.flow.inFlight() > 0 {
		c.loop.recordError(c.id.CloseQP())
	}
	err := firstError(c.closeReason.cause, firstError(c.closeReason.peerErr, ErrPeerClosed))
	for c.flow.outstanding() > 0 {
		c.retire(err)
	}
}

// failOpen ends a connection that has not opened, and passes err to OnAcceptError or, in
// a DialError, to OnDialError.
func (c *Conn) failOpen(err error) {
	c.destroy()
	if c.request != nil {
		c.loop.onAcceptError(c.request, err)
	} else {
		c.loop.onDialError(c, &DialError{Addr: c.remote, Err: err})
	}
}

// destroy releases all resources of the connection. Completions of the connection may be
// in the CQ until a poll finds the CQ empty. The loop drops them, because Loop.conns
// does not find a connection for their id any more. The places of the connection on the
// CQ become free when a poll has found the CQ empty (see cq.Queue.Release).
func (c *Conn) destroy() {
	l := c.loop
	if c.state < stateOpen {
		l.openingConns--
	}
	c.enter(stateClosed)
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

// releaseResources returns the buffers and the places on the CQ to the loopDevice. The
// queue pair is closed, so the device does not use the buffers any more.
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
	if c.device.sharedRecv != nil {
		delete(c.device.sharedRecv.conns, c.qpNum)
	}
	if c.queue != nil {
		c.queue.release()
	}
}
