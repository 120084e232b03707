package reactor

import "time"

// SetDeadline makes the connection end with ErrDeadline at the time t. It replaces the
// deadline of an earlier call. The zero time means that there is no deadline.
// SetDeadline does nothing unless the state is StateOpen or StateDraining.
func (c *Conn) SetDeadline(t time.Time) {
	switch {
	case t.IsZero():
		c.loop.timers.Stop(&c.deadline)
	case c.state == stateOpen || c.state == stateDraining:
		c.loop.setTimer(&c.deadline, time.Until(t))
	}
}

// SetIdleTimeout makes the connection end with ErrIdle when nothing was sent or received
// for the time d. The loop checks this at intervals of d, so the connection ends between
// d and 2d after the last activity, or later if the loop is delayed. Keepalive probes
// are not activity. If d is zero or less, there is no timeout.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.liveness.setIdleTimeout(d, c.loop.clock.read())
	c.startKeepalive()
}

// onKeepaliveTimer is called when a keepalive probe may be due, or when the idle timeout
// or the timeout of a probe may have passed.
func (c *Conn) onKeepaliveTimer() {
	if c.state == stateOpen && c.checkLiveness() != nil && !c.checkLivenessAgain() {
		return
	}
	switch now := c.loop.clock.read(); {
	case c.state != stateOpen || !c.liveness.probeDue(now, c.loop.cfg.Keepalive):
	case !c.loop.mayProbe():
		c.loop.timers.Set(&c.keepalive, now+c.loop.probeWait())
		return
	default:
		c.loop.stats.Keepalives++
		c.probe()
		c.postSends()
	}
	c.startKeepalive()
}

// checkLiveness calls liveness.check with the present time and returns its error. If
// there is no error, checkLiveness also ends the catchUp that an earlier error may have
// begun.
func (c *Conn) checkLiveness() error {
	err := c.liveness.check(c.loop.clock.read(), c.loop.cfg.Keepalive)
	if err == nil {
		c.catchUp.reset()
	}
	return err
}

// checkLivenessAgain is called when checkLiveness has found an error. A loop that was
// delayed may not have handled messages that have arrived meanwhile, so
// checkLivenessAgain polls the CQ and checks again. If there is no error now, it returns
// true, and the connection continues. If there is still an error, and all messages that
// arrived meanwhile have been handled, it ends the connection. If some of these messages
// are not handled yet, the next turn of the loop checks again.
func (c *Conn) checkLivenessAgain() (alive bool) {
	done := c.catchUp.poll(c.queue)
	if c.state != stateOpen {
		return false
	}
	err := c.checkLiveness()
	switch {
	case err == nil:
		return true
	case done:
		c.beginClose(err)
	default:
		c.loop.timers.Set(&c.keepalive, c.loop.clock.now)
	}
	return false
}

// Probes of many connections may be due at the same time. One turn of the loop posts at
// most probeBudget probes, which takes less than a millisecond. Further probes that are
// due in the same turn are delayed: the first probeBudget of them by probePause, the
// next probeBudget of them by 2*probePause, and so on. Both numbers are arbitrary.
const (
	probeBudget = 64
	probePause  = time.Millisecond
)

// mayProbe counts a probe, and reports whether the probe may be posted in this turn of
// the loop.
func (l *Loop) mayProbe() bool {
	if l.probeTurn != l.stats.Turns {
		l.probeTurn, l.probes = l.stats.Turns, 0
	}
	l.probes++
	return l.probes <= probeBudget
}

// probeWait returns how long to delay a probe for which mayProbe has just reported
// false.
func (l *Loop) probeWait() time.Duration {
	return probePause * time.Duration((l.probes-1)/probeBudget)
}

// startKeepalive sets the timer for onKeepaliveTimer.
func (c *Conn) startKeepalive() {
	when, none := c.liveness.nextCheck(c.loop.cfg.Keepalive)
	if none || c.state != stateOpen {
		c.loop.timers.Stop(&c.keepalive)
		return
	}
	c.loop.timers.Set(&c.keepalive, when)
}
