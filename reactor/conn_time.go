package reactor

import "time"

// SetDeadline ends the connection with ErrDeadline at t; the zero time means
// never.
func (c *Conn) SetDeadline(t time.Time) {
	switch {
	case t.IsZero():
		c.loop.timers.stop(&c.deadline)
	case c.state >= StateOpen && c.state <= StateDraining:
		c.loop.setTimer(&c.deadline, time.Until(t))
	}
}

// SetIdleTimeout ends the connection with ErrIdle when nothing was sent or
// received for d, and before 2d have passed so if the loop is not held up; zero
// or less means never. Keepalives do not count.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.idleTimeout = max(0, d)
	c.lastActive, c.activeSinceCheck = c.loop.clock.read(), false
	c.startKeepalive()
}

// silent looks how long it has been silent, and does what is due. A loop that
// was held up may not have seen yet what came meanwhile.
func (c *Conn) onKeepaliveTimer() {
	if c.state == StateOpen && c.livenessError() != nil && c.queue.pollAgain() && c.state == StateOpen {
		if err := c.livenessError(); err != nil {
			c.beginClose(err)
			return
		}
	}
	now := c.loop.clock.read()
	switch keepalive := c.loop.cfg.Keepalive; {
	case c.state != StateOpen || keepalive == 0:
	case c.flow.probes > 0:
		if now-c.lastProbe >= keepalive {
			// Unconfirmed sends precede the probe: see Config.Keepalive.
			c.lastProbe = now
		}
	case now-c.lastFromPeer < keepalive:
	case !c.loop.mayProbe():
		c.loop.timers.set(&c.keepalive, now+c.loop.probeWait())
		return
	default:
		c.loop.stats.Keepalives++
		c.probe()
		c.postSends() // its time runs
	}
	c.startKeepalive()
}

// Many connections may be silent for the same time. One turn posts at most
// probeBudget probes, which takes less than a millisecond. The other probes wait: the
// next probeBudget of them for probePause, the probeBudget after that for twice as
// long, and so on. Both numbers are arbitrary.
const (
	probeBudget = 64
	probePause  = time.Millisecond
)

// mayProbe counts a probe, and reports whether the probe may be posted in this turn.
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

// overdue is what the silence is a reason for to end the connection, if it is. To
// send costs no reading of the clock: use is booked when somebody asks.
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

// startKeepalive sets the timer to when silent may have something to do.
func (c *Conn) startKeepalive() {
	when, none := c.nextKeepalive()
	if none || c.state != StateOpen {
		c.loop.timers.stop(&c.keepalive)
		return
	}
	c.loop.timers.set(&c.keepalive, when)
}

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

// keepaliveSteps is how many times in one Keepalive a loop may wake up to look for
// silent peers. An idle loop handles all connections of a step in one wake-up. A
// larger number makes the loop wake up more often; a smaller one makes a dead peer be
// noticed later. Arbitrary.
const keepaliveSteps = 16

// roundUp returns the smallest multiple of step that is not before when.
func roundUp(when, step time.Duration) time.Duration {
	if step <= 0 {
		return when
	}
	return (when + step - 1) / step * step
}
