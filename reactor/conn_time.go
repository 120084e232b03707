package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// SetDeadline makes the connection end with ErrDeadline at the time t. SetDeadline
// replaces an earlier deadline. The zero time removes the deadline. SetDeadline has an
// effect only in StateOpen and StateDraining.
func (c *Conn) SetDeadline(t time.Time) {
	switch {
	case t.IsZero():
		c.loop.timers.Stop(&c.deadline)
	case c.state == stateOpen || c.state == stateDraining:
		c.loop.setTimer(&c.deadline, time.Until(t))
	}
}

// SetIdleTimeout makes the connection end with ErrIdle between d and 2d after the last
// send or receive. Keepalive probes do not count. If d is zero or less, there is no
// timeout.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.liveness.setIdleTimeout(d, c.loop.clock.read())
	c.startKeepalive()
}

// onKeepaliveTimer ends the connection if it was idle for too long or its peer is dead.
// Otherwise onKeepaliveTimer posts a probe if a probe is due.
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

// checkLivenessAgain polls the CQ and repeats checkLiveness, because the loop may have
// been delayed. If the error stays until Conn.catchUp is complete, the connection ends.
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

// In one turn of the loop, the first probeBudget probes are posted at once. Each further
// group of probeBudget probes waits one probePause longer. Arbitrary.
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

// A connTimers is a Conn that implements timerheap.Owner. The method is not part of the
// API.
type connTimers Conn

// OnTimer calls the function for a timer of the connection.
func (o *connTimers) OnTimer(t *timerheap.Timer) {
	c := (*Conn)(o)
	switch t {
	case &c.stateTimer:
		c.onStateTimer()
	case &c.deadline:
		c.beginClose(ErrDeadline)
	default:
		c.onKeepaliveTimer()
	}
}
