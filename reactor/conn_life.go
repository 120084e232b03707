package reactor

import (
	"errors"
	"time"

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

// flushLimit is how long a device may take to flush a queue pair.
const flushLimit = time.Second

// opened lets the application have the connection, and then what came early.
func (c *Conn) opened() {
	if c.state != StateConnecting || c.doomed {
		return
	}
	c.loop.timers.stop(&c.phase)
	if err := c.tune(); err != nil {
		c.abandon(err)
		return
	}
	c.state = StateOpen
	c.watchSilence()
	c.loop.onOpen(c)
	for b := c.held.pop(); b != nil; b = c.held.pop() {
		c.deliver(b)
	}
}

// tune sets what the connection manager leaves alone: rdma_accept(3) has code 0
// for the RNR timer, which is two thirds of a second.
func (c *Conn) tune() error {
	attr := verbs.QPAttr{MinRNRTimer: uint8(c.loop.cfg.MinRNRTimer)}
	err := c.qp.Modify(&attr, verbs.AttrMinRNRTimer)
	if errors.Is(err, verbs.ErrNotSupported) {
		return nil // iWARP knows no such timer
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
	c.state, c.quiet = StateDraining, true
	c.loop.setTimer(&c.phase, c.loop.cfg.DrainTimeout)
	c.later()
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
	c.quiet = true
	c.leave(cause)
	return nil
}

// leave begins the end of a connection, for a reason; the first one counts. It
// calls nobody back, and may be called from anywhere on the loop.
func (c *Conn) leave(cause error) {
	switch {
	case c.ending():
		if c.weak {
			c.cause, c.weak, c.byFailure = cause, false, false
		}
		return
	case c.state < StateOpen:
		c.doomed = true
	default:
		c.state = StateClosing
	}
	c.cause = cause
	c.later()
}

func (c *Conn) ending() bool { return c.doomed || c.state >= StateClosing }

// fail notes a failed request, and ends the connection. That a request was
// flushed is a poor reason, if another one comes.
func (c *Conn) fail(wc *verbs.WC) error {
	err, flushed := wc.Err(), wc.Status == verbs.StatusWRFlushErr
	switch wc.Status {
	case verbs.StatusWRFlushErr:
		c.loop.stats.Flushes++
	case verbs.StatusRNRRetryExcErr:
		c.loop.stats.RNRErrors++
	}
	if c.failed == nil || c.flushed && !flushed {
		c.failed, c.flushed = err, flushed
	}
	if c.weak && !flushed || !c.ending() {
		c.leave(err)
		c.weak, c.byFailure = flushed, true
	}
	return err
}

// later has step called at the end of this turn.
func (c *Conn) later() {
	if !c.queued {
		c.queued = true
		c.loop.leaving = append(c.loop.leaving, c)
	}
}

// step moves a connection on that is on its way out, if it can.
func (c *Conn) step() {
	switch c.state {
	case StateDialing, StateConnecting:
		if c.doomed {
			c.abandon(c.cause)
		}
	case StateDraining:
		c.drain()
	case StateClosing:
		c.close()
	case StateParting:
		if c.disconnected {
			c.bury()
		}
	}
}

// phaseOver ends a state that took too long.
func (c *Conn) phaseOver() {
	switch c.state {
	case StateDialing, StateConnecting:
		c.leave(cm.ErrTimedOut)
	case StateDraining:
		c.loop.stats.DrainTimeouts++
		c.leave(ErrDrainTimeout)
	case StateClosing:
		c.finish()
	case StateParting:
		c.bury()
	}
}

// drain waits until every send is confirmed. The last of them may not be
// signaled, so a probe goes after them.
func (c *Conn) drain() {
	switch {
	case c.flow.outstanding() == 0:
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
	c.flow.probes++
	wr, r := c.stage(verbs.OpWrite, true)
	wr.RemoteAddr, wr.RKey = 0, 0
	r.probe = true
	c.probed = c.loop.clock.now
}

// close disconnects, and then waits until the queues are flushed. The probe
// stands behind everything: once it is flushed, all that was received before
// has been delivered, with a shared receive queue too.
func (c *Conn) close() {
	if c.disconnected && !c.arrived() {
		c.later()
		return
	}
	if !c.flushing {
		c.flushing = true
		c.disconnect()
		c.loop.setTimer(&c.phase, flushLimit)
		if c.flow.probes == 0 {
			c.probe()
		}
		c.postSends()
	}
	if c.nic.broken || c.flow.inFlight() == 0 && c.recvs.inFlight() == 0 {
		c.finish()
	}
}

// arrived reports whether everything has been taken that came before the peer
// disconnected. The connection manager's events overtake completions, and
// flushing would turn sends that are confirmed into failures. Consume lets a
// device that is driven by its owner look at all there is.
func (c *Conn) arrived() bool {
	if c.flushing || c.nic.empty != c.parted || c.nic.broken {
		return true
	}
	if _, err := c.nic.group.Consume(); err != nil {
		c.nic.fail(err)
	}
	return false
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
	c.giveUp()
	err := c.reason()
	c.loop.timers.stop(&c.deadline)
	c.loop.timers.stop(&c.silence)
	c.loop.setTimer(&c.phase, c.loop.cfg.DrainTimeout)
	c.state, c.quiet = StateParting, true
	if c.disconnected {
		c.later()
	}
	c.loop.onClose(c, err)
}

// giveUp fails what the device has not flushed.
func (c *Conn) giveUp() {
	err := c.cause
	if err == nil {
		err = ErrPeerClosed
	}
	for c.flow.outstanding() > 0 {
		c.retire(err)
	}
}

// reason is what OnClose is told.
func (c *Conn) reason() error {
	switch {
	case c.stats.Failed == 0 || c.failed == nil || c.byFailure:
		return c.cause
	case c.cause == nil: // closing, when the peer was quicker
		return &CloseError{Cause: ErrPeerClosed, First: c.failed}
	}
	return &CloseError{Cause: c.cause, First: c.failed}
}

// abandon ends a connection that never opened.
func (c *Conn) abandon(err error) {
	d, req, l := c.dial, c.request, c.loop
	c.bury()
	if d != nil {
		l.onDialError(d, err)
	} else {
		l.onAcceptError(req, err)
	}
}

// bury gives everything back. Completions that are still to come find nobody;
// the CQ keeps their places until it has been empty.
func (c *Conn) bury() {
	l := c.loop
	c.state = StateClosed
	l.timers.stop(&c.phase)
	if c.id != nil {
		l.note(c.id.CloseQP())
	}
	if c.nic != nil {
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
	for b := c.held.pop(); b != nil; b = c.held.pop() {
		c.repost(b)
	}
	for b := c.recvs.take(); b != nil; b = c.recvs.take() {
		c.nic.slab.put(b)
	}
	for c.flow.outstanding() > 0 {
		if b := c.requests[c.flow.retire()].buffer; b != nil {
			b.recycle()
		}
	}
	if c.nic.shared != nil {
		delete(c.nic.shared.conns, c.param.QPNum)
	}
	if c.reserved {
		c.nic.queue.Release(c.nic.completions())
	}
}
