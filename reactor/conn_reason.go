package reactor

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A closeReason records why a connection ends, and determines the error for OnClose. If
// there are several reasons, usually the first one counts. For the exceptions see the
// values of causeKind.
type closeReason struct {
	kind causeKind
	// Error of the reason. It is nil if the application has called Close.
	cause error

	// The application has called Close, and the peer has disconnected before it
	// confirmed all sends. Then the field cause is nil.
	unconfirmed bool

	// peerErr says how the peer disconnected: ErrPeerClosed, verbs.ErrPeerGone ... It is nil
	// until cm.Disconnected is received.
	peerErr error
	// firstFailed is the error of the first request that has failed. If that request was
	// flushed, the first error of another kind replaces firstFailed.
	firstFailed  error
	firstFlushed bool  // true if firstFailed is the error of a flushed request
	flushErr     error // error of the first flushed request: see completionError
}

// A causeKind says where closeReason.cause comes from, and which later reasons replace
// it.
type causeKind uint8

const (
	// noCause: there is no reason yet, and closeReason.cause is nil. setCause
	// and setViolation lead to finalCause, deviceEvent leads to deviceCause, and
	// requestFailed leads to provisionalCause or requestCause.
	noCause causeKind = iota

	// provisionalCause: a request was flushed or has exhausted its retries. Perhaps the
	// peer has disconnected, so a later event may replace this reason.
	provisionalCause

	// requestCause: a request has failed for a reason other than a disconnect. The cause
	// does not change any more.
	requestCause

	// deviceCause: cause is a device event about the queue pair. A request that fails
	// with an error that is not provisional replaces it, and leads to requestCause.
	deviceCause

	// finalCause: cause was passed to setCause or setViolation. If cause may be only an
	// effect of a device event that is reported later, the event replaces cause, and the
	// kind becomes deviceCause: see isEffect. If cause is the disconnect of the peer,
	// setViolation replaces cause.
	finalCause
)

// provisional reports whether the kind of the reason is provisionalCause.
func (e *closeReason) provisional() bool { return e.kind == provisionalCause }

// setCause sets the reason if there is none yet, or only a provisional one.
func (e *closeReason) setCause(cause error) {
	if e.kind == noCause || e.kind == provisionalCause {
		e.kind, e.cause = finalCause, cause
	}
}

// setViolation sets the reason after the peer has violated the protocol. A reason that
// may be an effect of the violation is replaced. Such reasons are a device event, and the
// disconnect of the peer, which may be read before the completions that show the
// violation.
func (e *closeReason) setViolation(cause error) {
	peerClosed := e.cause != nil && e.cause == e.peerErr
	if e.kind == noCause || e.kind == provisionalCause || e.kind == deviceCause || peerClosed {
		e.kind, e.cause = finalCause, cause
	}
}

// isEffect reports whether the reason may be only the effect of a failed queue pair.
// This is possible for a provisional reason, a disconnect of the peer, and
// errFailedEarly.
func (e *closeReason) isEffect() bool {
	return e.provisional() || e.kind == finalCause && e.unconfirmed || e.cause != nil && (e.cause == e.peerErr || e.cause == errFailedEarly)
}

// deviceEvent sets the reason after a device event about the queue pair. An earlier
// reason stays, unless it may be an effect of the event.
func (e *closeReason) deviceEvent(cause error) {
	if e.kind == noCause || e.isEffect() {
		e.kind, e.cause = deviceCause, cause
	}
}

// requestFailed records the error of a failed request. A provisional error becomes the
// reason only if there is no reason yet. Another error also replaces a provisional
// reason or a device event.
func (e *closeReason) requestFailed(err error, s verbs.Status) {
	flushed := s == verbs.StatusWRFlushErr
	if e.firstFailed == nil || e.firstFlushed && !flushed {
		e.firstFailed, e.firstFlushed = err, flushed
	}
	kind := requestCause
	if flushed || s == verbs.StatusRetryExcErr {
		kind = provisionalCause
	}
	replaceable := e.kind == provisionalCause || e.kind == deviceCause
	if e.kind == noCause || replaceable && kind == requestCause {
		e.kind, e.cause = kind, err
	}
}

// completionError returns the error of a failed completion. Flushed receives share one
// error, to avoid allocations.
func (e *closeReason) completionError(wc *verbs.WC) error {
	switch wc.Status {
	case verbs.StatusWRFlushErr:
	case verbs.StatusLocLenErr, verbs.StatusRemInvReqErr:
		return fmt.Errorf("%w (message longer than Config.MaxMessage?)", wc.Err())
	default:
		return wc.Err()
	}
	if e.flushErr == nil {
		e.flushErr = wc.Err()
	}
	return e.flushErr
}

// closeError returns the error for OnClose. The parameter opsFailed is true if
// operations of the application have failed.
func (e *closeReason) closeError(opsFailed bool) error {
	switch {
	case e.kind == provisionalCause || e.kind == requestCause:
		return e.firstFailed
	case !opsFailed, e.kind == deviceCause && e.firstFlushed:
		return e.cause
	case e.firstFailed == nil: // No request was flushed, so the device has failed.
		return firstError(e.cause, firstError(e.peerErr, ErrPeerClosed))
	case e.cause == nil: // this side has called Close, but the peer has not confirmed all sends
		return &CloseError{Cause: firstError(e.peerErr, ErrPeerClosed), First: e.firstFailed}
	}
	return &CloseError{Cause: e.cause, First: e.firstFailed}
}
