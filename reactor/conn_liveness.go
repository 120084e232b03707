package reactor

import "time"

// A liveness determines whether a connection is idle, whether its peer is alive, and
// when a probe is due. In its methods, the parameter keepalive is Config.Keepalive, or 0
// for no probes.
type liveness struct {
	idleTimeout time.Duration // the argument of SetIdleTimeout; 0 means no timeout
	// lastActive is the time from which the idle timeout counts. After a send or
	// receive, the next check() updates it.
	lastActive       time.Duration
	activeSinceCheck bool // true if something was sent or received since the last check

	lastFromPeer time.Duration // time of the last receive or confirmed send
	probe        probeState
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

// sent records that the application has sent something.
func (l *liveness) sent() { l.activeSinceCheck = true }

// received records that a message was received.
func (l *liveness) received(now time.Duration) { l.lastFromPeer, l.activeSinceCheck = now, true }

// confirmed records that the peer has confirmed a request.
func (l *liveness) confirmed(now time.Duration) { l.lastFromPeer = now }

// setIdleTimeout sets the idle timeout, which begins now. A timeout of zero or less means
// that there is none.
func (l *liveness) setIdleTimeout(timeout, now time.Duration) {
	l.idleTimeout = max(0, timeout)
	l.lastActive, l.activeSinceCheck = now, false
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
func (l *liveness) check(now, keepalive time.Duration) error {
	if l.activeSinceCheck {
		l.lastActive, l.activeSinceCheck = now, false
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
func (l *liveness) probeDue(now, keepalive time.Duration) bool {
	switch {
	case keepalive == 0:
		return false
	case l.probe == noProbe:
		return now-l.lastFromPeer >= keepalive
	case now-l.lastProbe >= keepalive:
		l.lastProbe = now
	}
	return false
}

// nextCheck returns the time at which check() and probeDue must be called next. If no
// call is necessary, the second result is true.
func (l *liveness) nextCheck(keepalive time.Duration) (when time.Duration, none bool) {
	none = true
	if l.idleTimeout > 0 {
		when, none = later(l.lastActive, l.idleTimeout), false
	}
	if keepalive > 0 {
		next := l.lastFromPeer + keepalive
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
