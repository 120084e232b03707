package reactor

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A closeCause records why a connection ends, and determines the error for OnClose. If
// there are several reasons, usually the first one counts. For the exceptions see the
// values of causeKind.
type closeCause struct {
	kind causeKind
	// The application has called Close, and the peer has disconnected before it
	// confirmed all sends. Then the field cause is nil.
	unconfirmed  bool
	firstFlushed bool // true if firstFailed is the error of a flushed request

	// Error of the reason. It is nil if the application has called Close.
	cause error
	// peerErr says how the peer disconnected: a *CloseError with ErrPeerClosed,
	// verbs.ErrPeerGone ... It is nil until cm.Disconnected is received.
	peerErr error
	// firstFailed is the error of the first request that has failed. If that request was
	// flushed, the first error of another kind replaces firstFailed.
	firstFailed error
	flushErr    error // error of the first flushed request: see completionError
}

// A causeKind says where closeCause.cause comes from, and which later reasons replace
// it.
type causeKind uint8

const (
	// noCause: there is no reason yet, and closeCause.cause is nil. setCause
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
func (r *closeCause) provisional() bool { return r.kind == provisionalCause }

// setCause sets the reason if there is none yet, or only a provisional one.
func (r *closeCause) setCause(cause error) {
	if r.kind == noCause || r.kind == provisionalCause {
		r.kind, r.cause = finalCause, cause
	}
}

// setViolation sets the reason after the peer has violated the protocol. A reason that
// may be an effect of the violation is replaced. Such reasons are a device event, and the
// disconnect of the peer, which may be read before the completions that show the
// violation.
func (r *closeCause) setViolation(cause error) {
	peerClosed := r.cause != nil && r.cause == r.peerErr
	if r.kind == noCause || r.kind == provisionalCause || r.kind == deviceCause || peerClosed {
		r.kind, r.cause = finalCause, cause
	}
}

// isEffect reports whether the reason may be only the effect of a failed queue pair.
// This is possible for a provisional reason, a disconnect of the peer, and
// errFailedEarly.
func (r *closeCause) isEffect() bool {
	return r.provisional() || r.kind == finalCause && r.unconfirmed || r.cause != nil && (r.cause == r.peerErr || r.cause == errFailedEarly)
}

// deviceEvent sets the reason after a device event about the queue pair. An earlier
// reason stays, unless it may be an effect of the event.
func (r *closeCause) deviceEvent(cause error) {
	if r.kind == noCause || r.isEffect() {
		r.kind, r.cause = deviceCause, cause
	}
}

// requestFailed records the error of a failed request. A provisional error becomes the
// reason only if there is no reason yet. Another error also replaces a provisional
// reason or a device event.
func (r *closeCause) requestFailed(err error, s verbs.Status) {
	flushed := s == verbs.StatusWRFlushErr
	if r.firstFailed == nil || r.firstFlushed && !flushed {
		r.firstFailed, r.firstFlushed = err, flushed
	}
	kind := requestCause
	if flushed || s == verbs.StatusRetryExcErr {
		kind = provisionalCause
	}
	replaceable := r.kind == provisionalCause || r.kind == deviceCause
	if r.kind == noCause || replaceable && kind == requestCause {
		r.kind, r.cause = kind, err
	}
}

// completionError returns the error of a failed completion. The parameter immediatesOnly is
// the option of the connection. Flushed receives share one error, to avoid allocations.
func (r *closeCause) completionError(wc *verbs.WC, immediatesOnly bool) error {
	switch {
	case wc.Status == verbs.StatusWRFlushErr:
	case wc.Status == verbs.StatusRemInvReqErr:
		return fmt.Errorf("%w (a message longer than Config.MaxMessage of the peer, or one with bytes to a peer with ImmediatesOnly?)", wc.Err())
	case wc.Status == verbs.StatusLocLenErr && immediatesOnly:
		return fmt.Errorf("%w (a message with bytes, and this side has set ImmediatesOnly)", wc.Err())
	case wc.Status == verbs.StatusLocLenErr:
		return fmt.Errorf("%w (a message longer than Config.MaxMessage of this side)", wc.Err())
	default:
		return wc.Err()
	}
	if r.flushErr == nil {
		r.flushErr = wc.Err()
	}
	return r.flushErr
}

// closeError returns the error for OnClose. The parameter opsFailed is true if
// operations of the application have failed.
func (r *closeCause) closeError(opsFailed bool) error {
	switch {
	case r.kind == provisionalCause || r.kind == requestCause:
		return r.firstFailed
	case !opsFailed, r.kind == deviceCause && r.firstFlushed:
		return r.cause
	case r.firstFailed == nil: // No request was flushed, so the device has failed.
		return firstError(r.cause, firstError(r.peerErr, &CloseError{Cause: ErrPeerClosed}))
	case r.cause == nil: // this side has called Close, but the peer has not confirmed all sends
		return r.withFirst(firstError(r.peerErr, ErrPeerClosed))
	}
	return r.withFirst(r.cause)
}

// withFirst adds the error of the first failed request to that of a reason.
func (r *closeCause) withFirst(cause error) error {
	e := CloseError{Cause: cause}
	if ofPeer, ok := r.peerErr.(*CloseError); ok && cause == r.peerErr {
		e = *ofPeer
	}
	e.First = r.firstFailed
	return &e
}
