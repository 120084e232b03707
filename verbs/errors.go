package verbs

import (
	"errors"
	"fmt"
	"strconv"
)

// Causes that OpError wraps; test with errors.Is.
var (
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
	// ErrBusy: the object is still in use by others, or has events that were
	// not given back.
	ErrBusy = errors.New("still in use")
	// ErrQueueFull: no room on the queue until completions are polled.
	ErrQueueFull = errors.New("queue full")
	// ErrState: the object's state does not allow the call.
	ErrState = errors.New("wrong state")
	// ErrForeign: an object belongs to another device, domain or provider.
	ErrForeign = errors.New("object of another device or domain")
	// ErrNotSupported: see FeatureError.
	ErrNotSupported = errors.New("not supported")
	// ErrOverrun: the CQ got more completions than it can hold.
	ErrOverrun = errors.New("completion queue overrun")
	// ErrPeerGone: the process at the other end went away without a word.
	ErrPeerGone = errors.New("peer gone")
	// ErrNoResources: this side has no room for another object, because a limit of the
	// device, the process or the system is reached. A refusal by a peer without room
	// matches both this error and cm.ErrRefused.
	ErrNoResources = errors.New("no resources")
	// ErrProtocol: the peer broke the protocol.
	ErrProtocol = errors.New("protocol violation by the peer")
)

// An OpError names the operation that failed. Err is one of the sentinels of
// this package, a *ParamError, *TransitionError, *FeatureError or
// *CompletionError, or an error of the system.
type OpError struct {
	Op  string // "create QP", "post send"
	Err error
}

func (e *OpError) Error() string { return "rdma: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Wrap returns err as an *OpError. nil stays nil, and an error with an *OpError
// in its chain stays as it is: the innermost operation's name says most.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var already *OpError
	if errors.As(err, &already) {
		return err
	}
	return &OpError{Op: op, Err: err}
}

// A ParamError says that an argument is out of range: which, its value, and the
// limit it breaks.
type ParamError struct {
	Field  string
	Value  int64
	Limit  int64
	Reason string // empty: Value is above Limit
}

func (e *ParamError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s %d: %s", e.Field, e.Value, e.Reason)
	}
	return fmt.Sprintf("%s %d: the limit is %d", e.Field, e.Value, e.Limit)
}

// A FeatureError says that something can not be had here, and why. It matches
// ErrNotSupported.
type FeatureError struct {
	Feature string
	Reason  error
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Feature, ErrNotSupported, e.Reason)
}

// Is makes errors.Is(err, ErrNotSupported) hold.
func (e *FeatureError) Is(target error) bool { return target == ErrNotSupported }

// Unwrap returns the reason.
func (e *FeatureError) Unwrap() error { return e.Reason }

// A TransitionError says that a QP can not go from one state to another, or
// not with these attributes. It matches ErrState.
type TransitionError struct {
	Type     QPType
	From, To QPState
	Missing  QPAttrMask // needed, but not given
	Extra    QPAttrMask // given, but not allowed
}

func (e *TransitionError) Error() string {
	switch {
	case e.Missing != 0 && e.Extra != 0:
		return fmt.Sprintf("%v QP from %v to %v: attributes %#x missing, %#x not allowed", e.Type, e.From, e.To, uint32(e.Missing), uint32(e.Extra))
	case e.Missing != 0:
		return fmt.Sprintf("%v QP from %v to %v: attributes %#x missing", e.Type, e.From, e.To, uint32(e.Missing))
	case e.Extra != 0:
		return fmt.Sprintf("%v QP from %v to %v: attributes %#x not allowed", e.Type, e.From, e.To, uint32(e.Extra))
	}
	return fmt.Sprintf("%v QP from %v to %v: no such transition", e.Type, e.From, e.To)
}

// Is makes errors.Is(err, ErrState) hold.
func (e *TransitionError) Is(target error) bool { return target == ErrState }

// A CompletionError is a work request that failed after it was posted.
// Status.Fault tells local, remote and flushed apart.
type CompletionError struct {
	Status    Status
	QPN       uint32
	VendorErr uint32
}

func (e *CompletionError) Error() string {
	if e.VendorErr != 0 {
		return fmt.Sprintf("QP %#06x: %v (vendor error %#x)", e.QPN, e.Status, e.VendorErr)
	}
	return fmt.Sprintf("QP %#06x: %v", e.QPN, e.Status)
}

// unknown names a value that has no name: devices and libraries newer than
// this package may send such, and they are passed through.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
