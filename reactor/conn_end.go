package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// An ending is why a connection ends. Reasons come in any order; the first
// counts, unless it is vague.
type ending struct {
	cause error // nil: this side closed, in order
	set   bool
	own   bool // cause is a failed request
	vague bool // cause says only that the peer does not answer any more

	peer    error // how the peer left
	first   error // the first request that failed, if possible not just flushed
	flushed bool  // it was just flushed
	flush   error // with what requests were flushed
}

// because gives a reason.
func (e *ending) because(cause error) {
	if e.set && !e.vague {
		return
	}
	e.cause, e.set, e.own, e.vague = cause, true, false, false
}

// failed notes a failed request, which is a reason too.
func (e *ending) failed(err error, s verbs.Status) {
	flushed := s == verbs.StatusWRFlushErr
	if e.first == nil || e.flushed && !flushed {
		e.first, e.flushed = err, flushed
	}
	vague := flushed || s == verbs.StatusRetryExcErr
	if !e.set || e.vague && !vague {
		e.cause, e.set, e.own, e.vague = err, true, true, vague
	}
}

// errorOf is the error of a completion. A full queue of receives is flushed when a
// connection ends, all of them alike, so those share one.
func (e *ending) errorOf(wc *verbs.WC) error {
	if wc.Status != verbs.StatusWRFlushErr {
		return wc.Err()
	}
	if e.flush == nil {
		e.flush = wc.Err()
	}
	return e.flush
}

// reason is what OnClose is told; lost says that the application's operations
// failed.
func (e *ending) reason(lost bool) error {
	switch {
	case e.own:
		return e.first
	case !lost:
		return e.cause
	case e.first == nil: // the device did not even flush
		return first(e.cause, first(e.peer, ErrPeerClosed))
	case e.cause == nil: // the peer was quicker
		return &CloseError{Cause: first(e.peer, ErrPeerClosed), First: e.first}
	}
	return &CloseError{Cause: e.cause, First: e.first}
}
