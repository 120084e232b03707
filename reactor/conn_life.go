package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
