package reactor

import (
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ConnState is the state of a connection. The comment of package reactor has a diagram of
// the states and their transitions.
type ConnState uint8

// The states of a connection, in the order in which it passes through them. A connection
// may skip states. All states except StateOpen and StateClosed have a time limit.
const (
	// StateDialing: the address and the route of the peer are being resolved.
	StateDialing ConnState = iota
	// StateConnecting: the connection has a queue pair, and this side has sent or accepted
	// the connection request.
	StateConnecting
	// StateOpen: OnOpen was called. The state ends with Close, Abort, a failure or a
	// disconnect of the peer.
	StateOpen
	// StateDraining: this side has called Close, and not all sends are confirmed.
	StateDraining
	// StateClosing: the reason for OnClose is known, and the queues are being flushed.
	StateClosing
	// StateDisconnecting: OnClose was called, and the peer has not disconnected yet.
	StateDisconnecting
	// StateClosed: all resources of the connection are released.
	StateClosed
)

// String returns the name of the state, such as "open".
func (s ConnState) String() string {
	names := [...]string{"dialing", "connecting", "open", "draining", "closing", "disconnecting", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown connection state"
}

// A connState is the state of a connection, as the loop sees it. The application sees a
// ConnState: see coarse(). Conn.stateTimer measures the time limits.
type connState uint8

// The states, in the order in which a connection passes through them.
const (
	// stateDialing: the peer's address and route are being resolved, or the ID of an
	// accepted request is moved to the loop. makeQP leads to stateConnecting. A failure
	// leads to stateOpenFailed.
	//
	// Config.ConnectTimeout or DialOptions.Timeout limits stateDialing and
	// stateConnecting together.
	stateDialing connState = iota

	// stateConnecting: the connection request was sent or accepted. Received messages
	// are held. cm.Established leads to stateOpen. A failure or the time limit leads to
	// stateOpenFailed.
	stateConnecting

	// stateOpenFailed: opening has failed with the error in closeReason. The connection
	// may wait for the events of its device, for at most disconnectTimeout. Then
	// failOpen calls OnDialError or OnAcceptError.
	stateOpenFailed

	// stateOpen: OnOpen was called, and the application may send. Close leads to
	// stateDraining; Abort, a failure and cm.Disconnected lead to stateCloseBegun. There is
	// no time limit, except Config.DrainTimeout after StopHandler.OnStop.
	stateOpen

	// stateDraining: Close was called, and sends are unconfirmed. Received messages are
	// discarded. The last confirmation, a failure, cm.Disconnected or the end of
	// Config.DrainTimeout leads to stateCloseBegun.
	stateDraining

	// stateCloseBegun: closeReason has the reason. Messages that were received are
	// delivered, unless the application has called Close or Abort. The next call of
	// advance() chooses one of the next three states.
	stateCloseBegun

	// stateAwaitingDisconnected: the connection waits for an event that may be the true
	// reason for its end:
	//
	//   - An event of the device: see awaitsDeviceEvents.
	//   - cm.Disconnected, after a request has failed with a provisionalCause.
	//
	// Then chooseCloseState enters stateAwaitingEmptyCQ or stateFlushing.
	// disconnectTimeout limits stateAwaitingDisconnected and stateAwaitingEmptyCQ
	// together, and leads to stateFlushing.
	stateAwaitingDisconnected

	// stateAwaitingEmptyCQ: cm.Disconnected was received, but earlier completions may be
	// in the CQ. A flush now would fail requests that the peer has acknowledged. An empty
	// CQ or the time limit leads to stateFlushing.
	stateAwaitingEmptyCQ

	// stateFlushing: this side has disconnected, which flushes the queues. When all
	// sends and receives have completed, reportClose calls OnClose and enters
	// stateDisconnecting. After flushTimeout, reportClose fails the sends that have not
	// completed.
	stateFlushing

	// stateDisconnecting: OnClose was called. cm.Disconnected leads to stateClosed, also
	// if it was received in an earlier state. If the queue pair may still have a shared
	// receive buffer, it leads to stateAwaitingLastWQE instead. The removal of the device
	// and the end of Config.DrainTimeout lead to stateClosed.
	stateDisconnecting

	// stateAwaitingLastWQE: cm.Disconnected was received, and the queue pair may still
	// have a shared receive buffer: see mayHoldSharedBuffer. verbs.AsyncQPLastWQE, and
	// lastWQETimeout without this event, lead to stateClosed.
	stateAwaitingLastWQE

	// stateClosed: destroy() has released all resources of the connection. The loop does
	// not have the connection any more, but the application may.
	stateClosed
)

// If the device has failed, the states from stateCloseBegun to stateFlushing end early:
// the next call of advance() calls OnClose and enters stateDisconnecting. abortNow leads
// from every state to stateClosed.

// coarse returns the ConnState to which s belongs.
func (s connState) coarse() ConnState {
	switch s {
	case stateDialing:
		return StateDialing
	case stateConnecting, stateOpenFailed:
		return StateConnecting
	case stateOpen:
		return StateOpen
	case stateDraining:
		return StateDraining
	case stateCloseBegun, stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		return StateClosing
	case stateDisconnecting, stateAwaitingLastWQE:
		return StateDisconnecting
	}
	return StateClosed
}

// Close closes the connection. Accepted messages and operations are still sent and
// confirmed, within Config.DrainTimeout. From the call of Close on, only the callbacks
// OnCompletion and OnClose are called.
//
// Messages that still arrive are confirmed, but discarded and counted in
// Stats.Discarded; for an exception see DialOptions.ImmediatesOnly. If the connection is
// closing already, the error matches ErrClosed.
func (c *Conn) Close() error {
	if c.state != stateOpen {
		return operr.Wrap("close", errClosing)
	}
	c.endedByApp = true
	c.enter(stateDraining)
	c.catchUp.reset()
	if c.long != nil {
		c.discardLong()
	}
	c.scheduleAdvance()
	return nil
}

// stop closes an open connection because the engine stops. If the handler is a
// StopHandler, it closes the connection, or onStateTimer does.
func (c *Conn) stop() {
	h, ok := c.handler.(StopHandler)
	if !ok {
		_ = c.Close() // Close does not fail for an open connection.
		return
	}
	c.loop.setTimer(&c.stateTimer, c.loop.cfg.DrainTimeout)
	c.loop.onStop(c, h)
}

// Abort ends the connection at once. Unconfirmed operations fail, and received messages
// are discarded. OnClose of this side gets the cause, or ErrAborted if the cause is nil.
// OnClose of the peer gets ErrPeerClosed.
//
// Unless the state is StateOpen or StateDraining, the error matches ErrClosed.
func (c *Conn) Abort(cause error) error {
	if c.state != stateOpen && c.state != stateDraining {
		return operr.Wrap("abort", errClosing)
	}
	if cause == nil {
		cause = ErrAborted
	}
	c.endedByApp = true
	c.beginClose(cause)
	return nil
}

// beginClose begins to close a connection. OnClose gets the given cause, which is nil
// after the application's Close. beginClose calls no callback.
func (c *Conn) beginClose(cause error) {
	c.closeReason.setCause(cause)
	c.enterClosing()
}

// enterClosing makes a connection end, and schedules the next step. An open connection
// enters stateCloseBegun. A connection that is still opening enters stateOpenFailed. A
// second call does nothing.
func (c *Conn) enterClosing() {
	switch c.state {
	case stateDialing, stateConnecting:
		c.enter(stateOpenFailed)
	case stateOpen, stateDraining:
		c.enter(stateCloseBegun)
	default:
		return
	}
	c.scheduleAdvance()
}

// fail records a failed request, begins to close the connection, and returns the
// request's error. If the request is a keepalive probe, the error may match
// ErrKeepalive.
func (c *Conn) fail(wc *verbs.WC, keepalive bool) error {
	switch wc.Status {
	case verbs.StatusWRFlushErr:
		c.loop.stats.Flushes++
	case verbs.StatusRNRRetryExcErr:
		c.loop.stats.RNRErrors++
	}
	err := c.closeReason.completionError(wc)
	if keepalive && wc.Status == verbs.StatusRetryExcErr {
		err = &CloseError{Cause: ErrKeepalive, First: err}
	}
	c.closeReason.requestFailed(err, wc.Status)
	c.enterClosing()
	return err
}

// scheduleAdvance makes advanceClosing call advance(), in this turn of the loop or in the
// next.
func (c *Conn) scheduleAdvance() {
	if !c.advanceQueued {
		c.advanceQueued = true
		c.loop.closing.push(c)
	}
}

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
		b.free()
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
