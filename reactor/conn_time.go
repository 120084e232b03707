package reactor

import "time"

// SetDeadline makes the connection end with ErrDeadline at the time t. An earlier call of
// SetDeadline has no effect any more. The zero time removes the deadline. Unless the
// state is StateOpen or StateDraining, SetDeadline has no effect.
func (c *Conn) SetDeadline(t time.Time) {
	switch {
	case t.IsZero():
		c.loop.timers.Stop(&c.deadline)
	case c.state == stateOpen || c.state == stateDraining:
		c.loop.setTimer(&c.deadline, time.Until(t))
	}
}

// SetIdleTimeout makes the connection end with ErrIdle between d and 2d after the last
// send or receive, or later if the loop is delayed. Keepalive probes do not count. A d
// of zero or less means no timeout.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.liveness.setIdleTimeout(d, c.loop.clock.read())
	c.startKeepalive()
}

// onKeepaliveTimer is called by the timer Conn.keepalive. It ends a connection that was
// idle for too long, or whose peer has not answered a probe in time. Otherwise it posts a
// probe if one is due.
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

// checkLiveness returns the error of liveness.check for the present time. If there is no
// error, checkLiveness resets Conn.catchUp, because no time limit has passed.
func (c *Conn) checkLiveness() error {
	err := c.liveness.check(c.loop.clock.read(), c.loop.cfg.Keepalive)
	if err == nil {
		c.catchUp.reset()
	}
	return err
}

// checkLivenessAgain is called after checkLiveness has returned an error. The loop may
// have been delayed. So checkLivenessAgain polls the CQ and checks again. If the second
// check gives no error, the result is true. Otherwise the result is false. The connection
// then ends if Conn.catchUp is complete. If not, onKeepaliveTimer is soon called again.
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

// In one turn of the loop, the first 64 probes (probeBudget) are posted at once. The next
// 64 probes are delayed by 1 ms (probePause), the next 64 by 2 ms, and so on. Both
// constants are arbitrary.
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
