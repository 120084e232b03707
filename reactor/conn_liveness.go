package reactor

import "time"

// A liveness determines whether a connection is idle, whether its peer is alive, and when
// a keepalive probe is due. Times are in the loop's time, see clock.now. The parameter
// keepalive of its methods is Config.Keepalive; 0 means that no probes are posted.
type liveness struct {
	idleTimeout time.Duration // set by SetIdleTimeout; 0 means none
	// Time from which the idle timeout counts: the last check that found
	// activeSinceCheck true, or the call of SetIdleTimeout if that was later.
	lastActive       time.Duration
	activeSinceCheck bool // something was sent or received since the last check

	lastFromPeer time.Duration // time of the last receive or confirmed send
	probe        probeState
	// Time from which Config.Keepalive counts while a probe is outstanding. At first it
	// is the time at which the probe was posted. When Keepalive has passed without an
	// answer and the probe can not end the connection (probeBehindSends), probeDue sets
	// lastProbe to the present time, so that the next check follows after another
	// Keepalive.
	lastProbe time.Duration
}

// A probeState says whether a probe is outstanding, and what it means if the peer does
// not answer the probe.
type probeState uint8

const (
	// noProbe: no probe is outstanding.
	noProbe probeState = iota
	// probeAlone: a probe is outstanding, and no other request was outstanding when the
	// probe was posted. If the peer does not answer the probe within Config.Keepalive,
	// the peer has failed.
	probeAlone
	// probeBehindSends: a probe is outstanding, and sends were outstanding when it was
	// posted. If the peer does not answer, it may merely have no receive buffers for
	// these sends. So an unanswered probe does not end the connection, but the transport
	// may end it (see Config.Keepalive).
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
// other request was outstanding when the probe was posted.
func (l *liveness) probePosted(now time.Duration, onlyRequest bool) {
	l.lastProbe, l.probe = now, probeBehindSends
	if onlyRequest {
		l.probe = probeAlone
	}
}

// probeCompleted records that no probe is outstanding any more.
func (l *liveness) probeCompleted() { l.probe = noProbe }

// check returns ErrIdle if the idle timeout has passed, ErrKeepalive if the time for the
// answer to a probe has passed, and else nil. To save readings of the clock, a send or
// receive does not record its time for the idle timeout: it only sets activeSinceCheck.
// If activeSinceCheck is set, check clears it, and the idle timeout begins again at the
// time in the parameter now.
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

// probeDue reports whether a probe must be posted at the time in the parameter now. If a
// probe is already outstanding, probeDue returns false. If Keepalive has then passed
// without an answer, it also sets lastProbe to the time in the parameter now.
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

// nextCheck returns the time at which check and probeDue must be called next. If the
// connection has neither an idle timeout nor keepalive probes, these calls are not
// needed, and the second result is true.
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

// keepaliveSteps is the number of steps into which Config.Keepalive is divided. The
// times of keepalive timers are rounded up to a multiple of a step, so that an idle loop
// handles all connections of a step in one wake-up. With a larger number the loop wakes
// up more often; with a smaller number a failed peer is detected later. The number is
// arbitrary.
const keepaliveSteps = 16

// roundUp returns the smallest multiple of step that is not less than t. If step is not
// positive, roundUp returns t.
func roundUp(t, step time.Duration) time.Duration {
	if step <= 0 {
		return t
	}
	return (t + step - 1) / step * step
}
