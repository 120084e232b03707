package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// An ending is why a connection ends. Reasons come in any order; the first
// counts, unless it is vague.
type closeReason struct {
	cause       error // nil: this side closed, in order
	set         bool
	fromRequest bool // cause is a failed request
	provisional bool // cause says only that the peer does not answer any more

	peerErr      error // how the peer left
	firstFailed  error // the first request that failed, if possible not just flushed
	firstFlushed bool  // it was just flushed
	flushErr     error // with what requests were flushed
}

// because gives a reason.
func (e *closeReason) setCause(cause error) {
	if e.set && !e.provisional {
		return
	}
	e.cause, e.set, e.fromRequest, e.provisional = cause, true, false, false
}

// failed notes a failed request, which is a reason too.
func (e *closeReason) requestFailed(err error, s verbs.Status) {
	flushed := s == verbs.StatusWRFlushErr
	if e.firstFailed == nil || e.firstFlushed && !flushed {
		e.firstFailed, e.firstFlushed = err, flushed
	}
	vague := flushed || s == verbs.StatusRetryExcErr
	if !e.set || e.provisional && !vague {
		e.cause, e.set, e.fromRequest, e.provisional = err, true, true, vague
	}
}

// completionError is the error of a completion. A full queue of receives is flushed when
// a connection ends, all of them alike, so those share one.
func (e *closeReason) completionError(wc *verbs.WC) error {
	if wc.Status != verbs.StatusWRFlushErr {
		return wc.Err()
	}
	if e.flushErr == nil {
		e.flushErr = wc.Err()
	}
	return e.flushErr
}

// reason is what OnClose is told; lost says that the application's operations
// failed.
func (e *closeReason) closeError(lost bool) error {
	switch {
	case e.fromRequest:
		return e.firstFailed
	case !lost:
		return e.cause
	case e.firstFailed == nil: // the device did not even flush
		return firstError(e.cause, firstError(e.peerErr, ErrPeerClosed))
	case e.cause == nil: // the peer was quicker
		return &CloseError{Cause: firstError(e.peerErr, ErrPeerClosed), First: e.firstFailed}
	}
	return &CloseError{Cause: e.cause, First: e.firstFailed}
}
