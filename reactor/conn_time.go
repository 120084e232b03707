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
	case c.state != stateOpen || !c.times.liveness.probeDue(now, c.loop.cfg.Transport.Keepalive, c.traffic()):
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
	err := c.times.liveness.check(c.loop.clock.read(), c.loop.cfg.answerTime(), c.traffic())
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
	when, none := c.times.liveness.nextCheck(c.loop.cfg.Transport.Keepalive, c.loop.cfg.answerTime(), c.traffic())
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
// when a probe is due. In its methods, the parameter keepalive is Config.Transport.Keepalive, or 0
// for no probes, and answer is Config.answerTime.
type liveness struct {
	idleTimeout time.Duration // the argument of SetIdleTimeout; 0 means no timeout
	// lastActive is the time from which the idle timeout counts. After a send or
	// receive, the next check() updates it.
	lastActive time.Duration
	// The traffic at that time.
	accepted   uint64
	receivedAt time.Duration

	probe probeState
	// silent is the number of checks for the answer to the probe that is outstanding. Checks
	// are counted, and not time: if this process did not run, only one check is late, and the
	// peer has time to answer.
	silent uint8
	// checkedAt is the time of the last of these checks, or at which the probe was posted.
	checkedAt time.Duration
}

// answerChecks is how often the answer to a probe is looked for during Config.answerTime.
// Arbitrary.
const answerChecks = 4

// A probeState says whether a probe is outstanding, and whether a missing answer ends
// the connection.
type probeState uint8

const (
	// noProbe: no probe is outstanding.
	noProbe probeState = iota
	// probeAlone: a probe is outstanding, and was the only request when it was posted.
	// Without an answer within Config.answerTime, the peer has failed.
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
	l.checkedAt, l.silent, l.probe = now, 0, probeBehindSends
	if onlyRequest {
		l.probe = probeAlone
	}
}

// probeCompleted records that no probe is outstanding any more.
func (l *liveness) probeCompleted() { l.probe = noProbe }

// check returns ErrIdle after the idle timeout, ErrKeepalive if a probe was not answered
// in time, and else nil. After activity since the last check, the idle timeout restarts.
func (l *liveness) check(now, answer time.Duration, t traffic) error {
	if t.accepted != l.accepted || t.receivedAt != l.receivedAt {
		l.activeAt(now, t)
	}
	if l.probe != noProbe && now-l.checkedAt >= answer/answerChecks {
		l.checkedAt, l.silent = now, min(l.silent+1, answerChecks)
	}
	switch {
	case l.idleTimeout > 0 && now-l.lastActive >= l.idleTimeout:
		return ErrIdle
	case answer > 0 && l.probe == probeAlone && l.silent >= answerChecks:
		return ErrKeepalive
	}
	return nil
}

// probeDue reports whether a probe must be posted now. There is one at a time.
func (l *liveness) probeDue(now, keepalive time.Duration, t traffic) bool {
	return keepalive > 0 && l.probe == noProbe && now-t.fromPeer() >= keepalive
}

// nextCheck returns the time at which check() and probeDue must be called next. If no
// call is necessary, the second result is true.
func (l *liveness) nextCheck(keepalive, answer time.Duration, t traffic) (when time.Duration, none bool) {
	none = true
	if l.idleTimeout > 0 {
		when, none = later(l.lastActive, l.idleTimeout), false
	}
	if keepalive > 0 {
		next := roundUp(t.fromPeer()+keepalive, keepalive/keepaliveSteps)
		if l.probe != noProbe {
			next = l.checkedAt + max(1, answer/answerChecks)
		}
		if none || next < when {
			when, none = next, false
		}
	}
	return when, none
}

// keepaliveSteps is the number of steps into which Config.Transport.Keepalive is divided. Timers
// end only at a step, so one wake-up handles many connections. The number is arbitrary.
const keepaliveSteps = 16

// roundUp rounds t up to a multiple of step. If step is not positive, the result is t.
func roundUp(t, step time.Duration) time.Duration {
	if step <= 0 {
		return t
	}
	return (t + step - 1) / step * step
}
