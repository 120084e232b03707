package reactor

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ConnState is the state of a connection. The comment of package reactor has a diagram of
// the states and their transitions.
type ConnState uint8

// The states, in the order in which a connection passes through them. Each state except
// StateOpen and StateClosed has a time limit.
const (
	// StateDialing: the address and the route of the peer are being resolved.
	StateDialing ConnState = iota
	// StateConnecting: the connection has a queue pair, and this side has sent or accepted
	// the connection request.
	StateConnecting
	// StateOpen: OnOpen was called. The state ends with Close, Abort or a failure.
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

func (s ConnState) String() string {
	names := [...]string{"dialing", "connecting", "open", "draining", "closing", "disconnecting", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown connection state"
}

// enterOpen moves a connection that is established to stateOpen. It calls OnOpen, and
// then OnMessage for the messages that were received before.
func (c *Conn) enterOpen() {
	if c.state != stateConnecting {
		return
	}
	if err := c.setRNRTimer(); err != nil {
		c.failOpen(err)
		return
	}
	c.enter(stateOpen)
	c.loop.openingConns--
	c.lastFromPeer = c.loop.clock.now
	c.startKeepalive()
	c.loop.onOpen(c)
	for b := c.heldMessages.pop(); b != nil; b = c.heldMessages.pop() {
		c.deliver(b)
	}
}

// setRNRTimer sets the RNR timer of the queue pair to Config.MinRNRTimer. The connection
// manager sets it to code 0, which is 655 ms (rdma_accept(3)).
func (c *Conn) setRNRTimer() error {
	attr := verbs.QPAttr{MinRNRTimer: c.loop.cfg.rnrTimerCode()}
	err := c.qp.Modify(&attr, verbs.AttrMinRNRTimer)
	switch {
	case errors.Is(err, verbs.ErrNotSupported):
		return nil // iWARP has no RNR timer
	case err != nil && c.qp.State() == verbs.StateError:
		return errFailedEarly
	}
	return err
}

// Close closes the connection. The messages and operations that were accepted are still
// delivered and confirmed, for up to Config.DrainTimeout. After Close only OnCompletion
// and OnClose are called for the connection. Close returns an error that matches
// ErrClosed if the connection is closing already.
func (c *Conn) Close() error {
	if c.state != stateOpen {
		return operr.Wrap("close", ErrClosed)
	}
	c.closeCalled = true
	c.enterFor(stateDraining, c.loop.cfg.DrainTimeout)
	c.scheduleAdvance()
	return nil
}

// Abort ends the connection without waiting for outstanding operations: operations that
// are not confirmed fail. OnClose gets cause, or ErrAborted if cause is nil. Abort
// returns an error that matches ErrClosed unless the state is StateOpen or
// StateDraining.
func (c *Conn) Abort(cause error) error {
	if c.state != stateOpen && c.state != stateDraining {
		return operr.Wrap("abort", ErrClosed)
	}
	if cause == nil {
		cause = ErrAborted
	}
	c.closeCalled = true
	c.beginClose(cause)
	return nil
}

// beginClose begins to close a connection, for a reason. It calls no callback, so it may
// be called at any place on the loop's goroutine.
func (c *Conn) beginClose(cause error) {
	c.closeReason.setCause(cause)
	c.enterClosing()
}

// enterClosing moves the connection to stateCloseBegun, or to stateOpenFailed if it is
// not open yet, and schedules its next step. A second call does nothing.
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

// fail records a failed request and begins to close the connection. It returns the error
// of the request. If the request is a keepalive probe that was not answered, the error
// matches ErrKeepalive.
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

// scheduleAdvance makes advanceClosing call advance.
func (c *Conn) scheduleAdvance() {
	if !c.advanceQueued {
		c.advanceQueued = true
		c.loop.closing.push(c)
	}
}

// advance takes the next step of a connection that is closing or has failed to open, if
// the step is possible already.
func (c *Conn) advance() {
	if c.loop.aborting && c.state != stateClosed {
		c.abortNow()
		return
	}
	switch c.state {
	case stateOpenFailed:
		c.failOpen(c.closeReason.cause)
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

// onStateTimer ends a state whose time limit has passed.
func (c *Conn) onStateTimer() {
	switch c.state {
	case stateDialing, stateConnecting:
		c.beginClose(cm.ErrTimedOut)
	case stateDraining:
		c.loop.stats.DrainTimeouts++
		c.beginClose(ErrDrainTimeout)
	case stateAwaitingDisconnected, stateAwaitingEmptyCQ, stateFlushing:
		c.onCloseTimeout()
	case stateDisconnecting:
		c.destroy()
	}
}
