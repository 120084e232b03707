package reactor

import "time"

// SetDeadline makes the connection end with ErrDeadline at t. It replaces the time of an
// earlier call. The zero time means that there is no deadline. SetDeadline does nothing
// unless the state is StateOpen or StateDraining.
func (c *Conn) SetDeadline(t time.Time) {
	switch {
	case t.IsZero():
		c.loop.timers.Stop(&c.deadline)
	case c.state == stateOpen || c.state == stateDraining:
		c.loop.setTimer(&c.deadline, time.Until(t))
	}
}

// SetIdleTimeout makes the connection end with ErrIdle when nothing was sent or received
// for d. Unless the loop is delayed, the connection ends before 2d have passed without
// activity. Keepalive probes are not activity. If d is zero or less, there is no timeout.
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

// checkLiveness calls liveness.check with the present time and returns its error.
func (c *Conn) checkLiveness() error {
	return c.liveness.check(c.loop.clock.read(), c.loop.cfg.Keepalive)
}

// checkLivenessAgain polls the CQ and then checks the liveness again, because a loop that
// was delayed may not have handled messages that have arrived meanwhile. It returns true
// if these messages show that the peer is alive. Otherwise it ends the connection, or, if
// the CQ is not empty yet, makes the next turn of the loop check again.
func (c *Conn) checkLivenessAgain() (alive bool) {
	empty := c.queue.pollAgain()
	if c.state != stateOpen {
		return false
	}
	err := c.checkLiveness()
	switch {
	case err == nil:
		return true
	case empty:
		c.beginClose(err)
	default:
		c.loop.timers.Set(&c.keepalive, c.loop.clock.now)
	}
	return false
}

// Probes of many connections may be due at the same time. One turn of the loop posts at
// most probeBudget probes, which takes less than a millisecond. Further probes that are
// due in the same turn are delayed: the next probeBudget of them by probePause, those
// after them by twice as long, and so on. Both numbers are arbitrary.
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
