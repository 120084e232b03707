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
// received for d; zero or less means never. Keepalives do not count.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.idleFor = max(0, d)
	c.active = c.loop.clock.read()
	c.watchSilence()
}

// silent looks how long it has been silent, and does what is due.
func (c *Conn) silent() {
	now, keepalive := c.loop.clock.now, c.loop.cfg.Keepalive
	switch {
	case c.state != StateOpen:
		return
	case c.idleFor > 0 && now-c.active >= c.idleFor:
		c.leave(ErrIdle)
		return
	case keepalive > 0 && c.flow.probes > 0 && now-c.probed >= keepalive:
		c.leave(ErrKeepalive)
		return
	case keepalive > 0 && now-c.heard >= keepalive && c.flow.probes == 0:
		c.loop.stats.Keepalives++
		c.probe()
	}
	c.watchSilence()
}

// watchSilence sets the timer to when silent may have something to do.
func (c *Conn) watchSilence() {
	when, none := c.nextSilence()
	if none || c.state != StateOpen {
		c.loop.timers.stop(&c.silence)
		return
	}
	c.loop.timers.set(&c.silence, when)
}

func (c *Conn) nextSilence() (when time.Duration, none bool) {
	none = true
	if c.idleFor > 0 {
		when, none = c.active+c.idleFor, false
	}
	if keepalive := c.loop.cfg.Keepalive; keepalive > 0 {
		next := c.heard + keepalive
		if c.flow.probes > 0 {
			next = c.probed + keepalive
		}
		if none || next < when {
			when, none = next, false
		}
	}
	return when, none
}
