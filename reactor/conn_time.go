package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A connTimes has the time limits of an open connection that the application has set.
type connTimes struct {
	timeout   timerheap.Timer // timer for SetTimeout
	keepalive timerheap.Timer // timer that calls onKeepaliveTimer
	liveness  liveness
	openedAt  time.Duration // value of Loop.clock when OnOpen was called
}

// SetTimeout makes the connection end with ErrTimeout after d. It replaces an earlier
// limit. If d is zero or less, there is no limit. SetTimeout has an effect only in StateOpen
// and StateDraining.
//
// Perhaps the loop did not run when the limit was over. So the loop first handles what has
// arrived, and a handler that then calls SetTimeout keeps the connection.
func (c *Conn) SetTimeout(d time.Duration) {
	c.loop.owner.check()
	if d > 0 && c.mayTimeOut() {
		c.loop.setTimer(&c.times.timeout, d)
	} else {
		c.loop.timers.Stop(&c.times.timeout)
	}
}

func (c *Conn) mayTimeOut() bool { return c.state == stateOpen || c.state == stateDraining }

// onTimeout is called when the time passed to SetTimeout is over. While it handles what has
// arrived, the timer runs, so that SetTimeout can stop or move it.
func (c *Conn) onTimeout() {
	timer, again := &c.times.timeout, c.loop.clock.now+1
	c.loop.timers.Set(timer, again)
	done := c.closing.catchUp.poll(c.queue)
	if done && c.mayTimeOut() && timer.Running() && timer.When() == again {
		c.endBy(ErrTimeout)
	}
}

// SetIdleTimeout makes the connection end with ErrIdle between d and 2d after the last
// send or receive. Keepalive probes do not count. If d is zero or less, there is no
// timeout.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.loop.owner.check()
	c.times.liveness.setIdleTimeout(d, c.loop.clock.read(), c.traffic())
	c.startKeepalive()
}

// traffic returns what the connection has sent and received so far.
func (c *Conn) traffic() traffic {
	return traffic{accepted: c.stats.Accepted, receivedAt: c.recvs.lastAt, confirmedAt: c.sends.confirmedAt}
}

// onKeepaliveTimer ends the connection if it was idle for too long or its peer is dead.
// Otherwise onKeepaliveTimer posts a probe if a probe is due.
func (c *Conn) onKeepaliveTimer() {
	if c.state == stateOpen && c.checkLiveness() != nil && !c.checkLivenessAgain() {
		return
	}
	switch now := c.loop.clock.read(); {
	case c.state != stateOpen || !c.times.liveness.probeDue(now, c.loop.cfg.Keepalive, c.traffic()):
	case !c.loop.mayProbe():
		c.loop.timers.Set(&c.times.keepalive, now+c.loop.probeWait())
		return
	default:
		c.loop.stats.Keepalives++
		c.probe()
		c.postSends()
	}
	c.startKeepalive()
}

// checkLiveness returns the error of liveness.check for the present time. If there is no
// error, checkLiveness resets closing.catchUp, because no time limit has passed.
func (c *Conn) checkLiveness() error {
	err := c.times.liveness.check(c.loop.clock.read(), c.loop.cfg.Keepalive, c.traffic())
	if err == nil {
		c.closing.catchUp.reset()
	}
	return err
}

// checkLivenessAgain polls the CQ and repeats checkLiveness, because the loop may have
// been delayed. If the error stays until closing.catchUp is complete, the connection ends.
func (c *Conn) checkLivenessAgain() (alive bool) {
	done := c.closing.catchUp.poll(c.queue)
	if c.state != stateOpen {
		return false
	}
	err := c.checkLiveness()
	switch {
	case err == nil:
		return true
	case done:
		c.endBy(err)
	default:
		c.loop.timers.Set(&c.times.keepalive, c.loop.clock.now)
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
	when, none := c.times.liveness.nextCheck(c.loop.cfg.Keepalive, c.traffic())
	if none || c.state != stateOpen {
		c.loop.timers.Stop(&c.times.keepalive)
		return
	}
	c.loop.timers.Set(&c.times.keepalive, when)
}

// A connTimers is a Conn that implements timerheap.Owner. The method is not part of the
// API.
type connTimers Conn

// OnTimer calls the function for a timer of the connection.
func (ct *connTimers) OnTimer(t *timerheap.Timer) {
	c := (*Conn)(ct)
	switch t {
	case &c.stateTimer:
		c.on(eventTimeout)
	case &c.times.timeout:
		c.onTimeout()
	default:
		c.onKeepaliveTimer()
	}
}

// A liveness determines whether a connection is idle, whether its peer is alive, and
// when a probe is due. In its methods, the parameter keepalive is Config.Keepalive, or 0
// for no probes.
type liveness struct {
	idleTimeout time.Duration // the argument of SetIdleTimeout; 0 means no timeout
	// lastActive is the time from which the idle timeout counts. After a send or
	// receive, the next check() updates it.
	lastActive time.Duration
	// The traffic at that time.
	accepted   uint64
	receivedAt time.Duration

	probe probeState
	// lastProbe is the time from which the wait for the answer to a probe counts. At
	// first this is the time at which the probe was posted. If Config.Keepalive passes
	// without an answer, probeDue sets lastProbe to the present time.
	lastProbe time.Duration
}

// A probeState says whether a probe is outstanding, and whether a missing answer ends
// the connection.
type probeState uint8

const (
	// noProbe: no probe is outstanding.
	noProbe probeState = iota
	// probeAlone: a probe is outstanding, and was the only request when it was posted.
	// Without an answer within Config.Keepalive, the peer has failed.
	probeAlone
	// probeBehindSends: a probe is outstanding, posted after unfinished sends. A missing
	// answer does not end the connection, because the peer may lack receive buffers.
	probeBehindSends
)

// A traffic is what a connection has sent and received until now. The times are those of
// the loop's clock.
type traffic struct {
	accepted    uint64        // ConnStats.Accepted
	receivedAt  time.Duration // time of the last receive
	confirmedAt time.Duration // time of the last confirmed request
}

// fromPeer returns the time at which the peer has last shown that it is alive.
func (t traffic) fromPeer() time.Duration { return max(t.receivedAt, t.confirmedAt) }

// activeAt records that the connection is active now.
func (l *liveness) activeAt(now time.Duration, t traffic) {
	l.lastActive, l.accepted, l.receivedAt = now, t.accepted, t.receivedAt
}

// setIdleTimeout sets the idle timeout, which begins now. A timeout of zero or less means
// that there is none.
func (l *liveness) setIdleTimeout(timeout, now time.Duration, t traffic) {
	l.idleTimeout = max(0, timeout)
	l.activeAt(now, t)
}

// probePosted records that a probe was posted. The parameter onlyRequest is true if no
// other request was outstanding.
func (l *liveness) probePosted(now time.Duration, onlyRequest bool) {
	l.lastProbe, l.probe = now, probeBehindSends
	if onlyRequest {
		l.probe = probeAlone
	}
}

// probeCompleted records that no probe is outstanding any more.
func (l *liveness) probeCompleted() { l.probe = noProbe }

// check returns ErrIdle after the idle timeout, ErrKeepalive if a probe was not answered
// in time, and else nil. After activity since the last check, the idle timeout restarts.
func (l *liveness) check(now, keepalive time.Duration, t traffic) error {
	if t.accepted != l.accepted || t.receivedAt != l.receivedAt {
		l.activeAt(now, t)
	}
	switch {
	case l.idleTimeout > 0 && now-l.lastActive >= l.idleTimeout:
		return ErrIdle
	case keepalive > 0 && l.probe == probeAlone && now-l.lastProbe >= keepalive:
		return ErrKeepalive
	}
	return nil
}

// probeDue reports whether a probe must be posted now. It returns false while a probe is
// outstanding. If this probe was not answered within Config.Keepalive, probeDue sets
// l.lastProbe to now, so that nextCheck returns a later time.
func (l *liveness) probeDue(now, keepalive time.Duration, t traffic) bool {
	switch {
	case keepalive == 0:
		return false
	case l.probe == noProbe:
		return now-t.fromPeer() >= keepalive
	case now-l.lastProbe >= keepalive:
		l.lastProbe = now
	}
	return false
}

// nextCheck returns the time at which check() and probeDue must be called next. If no
// call is necessary, the second result is true.
func (l *liveness) nextCheck(keepalive time.Duration, t traffic) (when time.Duration, none bool) {
	none = true
	if l.idleTimeout > 0 {
		when, none = later(l.lastActive, l.idleTimeout), false
	}
	if keepalive > 0 {
		next := t.fromPeer() + keepalive
		if l.probe != noProbe {
			next = l.lastProbe + keepalive
		}
		next = roundUp(next, keepalive/keepaliveSteps)
		if none || next < when {
			when, none = next, false
		}
	}
	return when, none
}

// keepaliveSteps is the number of steps into which Config.Keepalive is divided. Timers
// end only at a step, so one wake-up handles many connections. The number is arbitrary.
const keepaliveSteps = 16

// roundUp rounds t up to a multiple of step. If step is not positive, the result is t.
func roundUp(t, step time.Duration) time.Duration {
	if step <= 0 {
		return t
	}
	return (t + step - 1) / step * step
}
