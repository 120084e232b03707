package reactor

import "time"

// SetDeadline makes the connection end with ErrDeadline at t. The zero time means that
// there is no deadline.
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
	c.idleTimeout = max(0, d)
	c.lastActive, c.activeSinceCheck = c.loop.clock.read(), false
	c.startKeepalive()
}

// onKeepaliveTimer is called when a keepalive probe may be due, or when the idle timeout
// or the timeout of a probe may have passed.
func (c *Conn) onKeepaliveTimer() {
	if c.state == stateOpen && c.livenessError() != nil && !c.checkLiveness() {
		return
	}
	now := c.loop.clock.read()
	switch keepalive := c.loop.cfg.Keepalive; {
	case c.state != stateOpen || keepalive == 0:
	case c.flow.probes > 0:
		if now-c.lastProbe >= keepalive {
			// Other requests are before the probe, so only the transport may end the
			// connection (see Config.Keepalive).
			c.lastProbe = now
		}
	case now-c.lastFromPeer < keepalive:
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

// checkLiveness checks livenessError again after polling the CQ, because a loop that was
// delayed may not have handled messages that have arrived meanwhile. It reports true if
// these messages show that the peer is alive. Otherwise it ends the connection. If the
// CQ still has completions, it makes the next turn of the loop check again instead.
func (c *Conn) checkLiveness() (alive bool) {
	all := c.queue.pollAgain()
	if c.state != stateOpen {
		return false
	}
	err := c.livenessError()
	switch {
	case err == nil:
		return true
	case all:
		c.beginClose(err)
	default:
		c.loop.timers.Set(&c.keepalive, c.loop.clock.now)
	}
	return false
}

// Probes of many connections may be due at the same time. One turn of the loop posts at
// most probeBudget probes, which takes less than a millisecond. The next probeBudget
// probes are delayed by probePause, the probeBudget probes after these by twice as long,
// and so on. Both numbers are arbitrary.
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

// livenessError returns ErrIdle if the idle timeout has passed, ErrKeepalive if the time
// for the answer to a probe has passed, and else nil. A send or a receive only sets
// activeSinceCheck, which saves a reading of the clock; livenessError then uses the
// present time as the time of the activity.
func (c *Conn) livenessError() error {
	now, keepalive := c.loop.clock.read(), c.loop.cfg.Keepalive
	if c.activeSinceCheck {
		c.lastActive, c.activeSinceCheck = now, false
	}
	switch {
	case c.idleTimeout > 0 && now-c.lastActive >= c.idleTimeout:
		return ErrIdle
	case keepalive > 0 && c.flow.probes > 0 && c.probeAlone && now-c.lastProbe >= keepalive:
		return ErrKeepalive
	}
	return nil
}

// startKeepalive sets the timer for onKeepaliveTimer.
func (c *Conn) startKeepalive() {
	when, none := c.nextKeepalive()
	if none || c.state != stateOpen {
		c.loop.timers.Stop(&c.keepalive)
		return
	}
	c.loop.timers.Set(&c.keepalive, when)
}

// nextKeepalive returns the time of the next call of onKeepaliveTimer. The result none is
// true if the connection has neither an idle timeout nor keepalive probes.
func (c *Conn) nextKeepalive() (when time.Duration, none bool) {
	none = true
	if c.idleTimeout > 0 {
		when, none = c.lastActive+c.idleTimeout, false
	}
	if keepalive := c.loop.cfg.Keepalive; keepalive > 0 {
		next := c.lastFromPeer + keepalive
		if c.flow.probes > 0 {
			next = c.lastProbe + keepalive
		}
		next = roundUp(next, keepalive/keepaliveSteps)
		if none || next < when {
			when, none = next, false
		}
	}
	return when, none
}

// keepaliveSteps is the number of steps into which Config.Keepalive is divided. The
// times of keepalive timers are rounded up to a multiple of a step, so that an idle loop
// handles all connections of a step in one wake-up. With a larger number the loop wakes
// up more often; with a smaller number a failed peer is detected later. The number is
// arbitrary.
const keepaliveSteps = 16

// roundUp rounds the time when up to a multiple of step.
func roundUp(when, step time.Duration) time.Duration {
	if step <= 0 {
		return when
	}
	return (when + step - 1) / step * step
}
