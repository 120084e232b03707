package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Close closes the connection. The messages and operations that were accepted are still
// sent, and the connection waits up to Config.DrainTimeout until the peer has confirmed
// them. After Close only OnCompletion and OnClose are called for the connection.
// Messages that this side has received, but not passed to OnMessage, are discarded and
// counted in Stats.Discarded; for the peer they are confirmed. Close returns an error
// that matches ErrClosed if the connection is closing already.
func (c *Conn) Close() error {
	if c.state != stateOpen {
		return operr.Wrap("close", errClosing)
	}
	c.endedByApp = true
	c.enter(stateDraining)
	c.catchUp.reset()
	c.scheduleAdvance()
	return nil
}

// Abort ends the connection without waiting for outstanding operations. Operations that
// are not confirmed fail. Received messages are discarded as after Close. The parameter
// cause is the error that OnClose of this side gets; if cause is nil, OnClose gets
// ErrAborted. The peer is not told the cause: it sees a disconnect, as after Close, and
// its OnClose gets ErrPeerClosed. If the peer has to know the cause, the application
// sends it in a last message and calls Close. Abort returns an error that matches
// ErrClosed unless the state is StateOpen or StateDraining.
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

// beginClose begins to close a connection. The parameter cause is the error for OnClose;
// nil means that the application has called Close. beginClose calls no callback, so any
// code on the loop's goroutine may call it.
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
// of the request. The parameter keepalive is true if the request is a keepalive probe.
// If the retries of such a probe are exhausted, the error matches ErrKeepalive.
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

// scheduleAdvance makes advanceClosing call the method advance of the connection, later
// in the present turn of the loop or in the next turn.
func (c *Conn) scheduleAdvance() {
	if !c.advanceQueued {
		c.advanceQueued = true
		c.loop.closing.push(c)
	}
}
