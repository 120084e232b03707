package reactor

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// ConnState is where a connection is in its life. Package reactor has the
// picture.
type ConnState uint8

// States, in the order of a life. Each but Open and Closed has a limit in time.
const (
	StateDialing    ConnState = iota // looking for the way to the peer
	StateConnecting                  // has a queue pair, and asked or accepted
	StateOpen                        // between OnOpen and the first of Close, Abort and a failure
	StateDraining                    // closed by this side; sends are still to be confirmed
	StateClosing                     // its end is decided; requests are being flushed
	StateParting                     // after OnClose; the peer is still to say goodbye
	StateClosed                      // gone
)

func (s ConnState) String() string {
	names := [...]string{"dialing", "connecting", "open", "draining", "closing", "parting", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown connection state"
}

// opened lets the application have the connection, and then what came early.
func (c *Conn) enterOpen() {
	if c.state != StateConnecting || c.openFailed {
		return
	}
	c.loop.timers.stop(&c.stateTimer)
	if err := c.setRNRTimer(); err != nil {
		c.failOpen(err)
		return
	}
	c.state = StateOpen
	c.loop.openingConns--
	c.lastFromPeer = c.loop.clock.now
	c.startKeepalive()
	c.loop.onOpen(c)
	for b := c.heldMessages.pop(); b != nil; b = c.heldMessages.pop() {
		c.deliver(b)
	}
}

// tune sets what the connection manager leaves alone: rdma_accept(3) has code 0
// for the RNR timer, which is two thirds of a second.
func (c *Conn) setRNRTimer() error {
	attr := verbs.QPAttr{MinRNRTimer: uint8(c.loop.cfg.MinRNRTimer)}
	err := c.qp.Modify(&attr, verbs.AttrMinRNRTimer)
	switch {
	case errors.Is(err, verbs.ErrNotSupported):
		return nil // iWARP knows no such timer
	case err != nil && c.qp.State() == verbs.StateError:
		return errFailedEarly
	}
	return err
}

// Close closes the connection in order: what was accepted for sending is still
// delivered and confirmed, for up to Config.DrainTimeout. After it there are
// OnCompletion and OnClose only. It returns an error that matches ErrClosed when
// the connection is closing already.
func (c *Conn) Close() error {
	if c.state != StateOpen {
		return verbs.Wrap("close", ErrClosed)
	}
	c.state, c.discardMessages = StateDraining, true
	c.loop.setTimer(&c.stateTimer, c.loop.cfg.DrainTimeout)
	c.scheduleAdvance()
	return nil
}

// Abort ends the connection without waiting for anything: what is not confirmed
// fails. OnClose gets cause, or ErrAborted if it is nil. It returns an error
// that matches ErrClosed when the connection has ended already.
func (c *Conn) Abort(cause error) error {
	if c.state < StateOpen || c.state > StateDraining {
		return verbs.Wrap("abort", ErrClosed)
	}
	if cause == nil {
		cause = ErrAborted
	}
	c.discardMessages = true
	c.beginClose(cause)
	return nil
}

// leave begins the end of a connection, for a reason. It calls nobody back, and
// may be called from anywhere on the loop.
func (c *Conn) beginClose(cause error) {
	c.closeReason.setCause(cause)
	c.enterClosing()
}

func (c *Conn) enterClosing() {
	switch {
	case c.closing():
		return
	case c.state < StateOpen:
		c.openFailed = true
	default:
		c.state = StateClosing
	}
	c.scheduleAdvance()
}

func (c *Conn) closing() bool { return c.openFailed || c.state >= StateClosing }

// fail records a failed request and ends the connection. If the request is an
// unanswered keepalive, the error is ErrKeepalive.
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

// later has step called at the end of this turn.
func (c *Conn) scheduleAdvance() {
	if !c.advanceQueued {
		c.advanceQueued = true
		c.loop.closing.push(c)
	}
}

// step moves a connection on that is on its way out, if it can.
func (c *Conn) advance() {
	if c.loop.aborting && c.state != StateClosed {
		c.abortNow()
		return
	}
	switch c.state {
	case StateDialing, StateConnecting:
		if c.openFailed {
			c.failOpen(c.closeReason.cause)
		}
	case StateDraining:
		c.drain()
	case StateClosing:
		c.close()
	case StateParting:
		if c.peerDone() {
			c.destroy()
		}
	}
}

// onStateTimer ends a state that took too long.
func (c *Conn) onStateTimer() {
	switch c.state {
	case StateDialing, StateConnecting:
		c.beginClose(cm.ErrTimedOut)
	case StateDraining:
		c.loop.stats.DrainTimeouts++
		c.beginClose(ErrDrainTimeout)
	case StateClosing:
		c.onCloseTimeout()
	case StateParting:
		c.destroy()
	}
}
