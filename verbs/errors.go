package verbs

import (
	"errors"
	"fmt"
	"strconv"
)

// Causes of errors that an OpError wraps. Test for them with errors.Is.
var (
	// ErrClosed reports a call on a closed object.
	ErrClosed = errors.New("closed")
	// ErrBusy reports that the object can not be closed yet: other objects use it, or it
	// has events that are not acknowledged.
	ErrBusy = errors.New("still in use")
	// ErrQueueFull reports that a work queue is full. The queue has room again after
	// completions have been polled. A receive queue of length 0 (QPCaps.MaxRecvWR) never
	// has room: a *ParamError reports this case.
	ErrQueueFull = errors.New("queue full")
	// ErrState reports that the object's state does not allow the call.
	ErrState = errors.New("wrong state")
	// ErrForeign reports an argument that belongs to another device, protection domain
	// or provider than the object whose method was called.
	ErrForeign = errors.New("object of another device or domain")
	// ErrNotSupported reports a missing feature. The error is a *FeatureError, which
	// names the feature and the reason.
	ErrNotSupported = errors.New("not supported")
	// ErrOverrun reports that the CQ received more completions than it can hold.
	ErrOverrun = errors.New("completion queue overrun")
	// ErrPeerGone reports one of two things. Either the peer's process has exited or has
	// closed its end of the connection, without disconnecting first. Or a connection
	// request is not valid any more, because its sender has cancelled it, or because the
	// host that received it has dropped it to make room for other requests.
	ErrPeerGone = errors.New("peer gone")
	// ErrNoResources reports that this side has no room for another object, because a
	// limit of the device, the process or the system is reached. If a peer without room
	// refuses a connection, the error matches both ErrNoResources and cm.ErrRefused.
	ErrNoResources = errors.New("no resources")
	// ErrProtocol reports that the peer violated the protocol.
	ErrProtocol = errors.New("protocol violation by the peer")
)

// An OpError names the operation that failed. Err is one of the Err variables of this
// package, a *ParamError, *TransitionError, *FeatureError or *CompletionError, or an
// error of the operating system.
type OpError struct {
	Op  string // the operation, such as "create QP" or "post send"
	Err error
}

func (e *OpError) Error() string { return "rdma: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// A ParamError reports an argument that is out of range. It has the name and the value
// of the argument, and the limit or the reason.
type ParamError struct {
	Field  string // name of the argument, such as "retry count"
	Value  int64
	Limit  int64  // largest allowed value; it has no meaning if Reason is set
	Reason string // rule that Value breaks; empty means that Value is above Limit
	// NotNumber is true if the argument is not a number, such as a missing CQ or an
	// address. Value and Limit then have no meaning, and Reason is set.
	NotNumber bool
}

func (e *ParamError) Error() string {
	if e.NotNumber {
		return e.Field + ": " + e.Reason
	}
	if e.Reason != "" {
		return fmt.Sprintf("%s %d: %s", e.Field, e.Value, e.Reason)
	}
	return fmt.Sprintf("%s %d: the limit is %d", e.Field, e.Value, e.Limit)
}

// A FeatureError reports that a device or the system does not have a feature, and why. It
// matches ErrNotSupported.
type FeatureError struct {
	Feature string // name of the feature, such as "UDP_SEGMENT"
	Reason  error  // reason why the feature is not available; Unwrap returns it
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Feature, ErrNotSupported, e.Reason)
}

// Is reports whether target is ErrNotSupported.
func (e *FeatureError) Is(target error) bool { return target == ErrNotSupported }

// Unwrap returns Reason.
func (e *FeatureError) Unwrap() error { return e.Reason }

// A CompletionError reports a work request that failed after it was posted. Status.Fault
// says whether the cause is local, remote or a flush.
type CompletionError struct {
	Status    Status // how the work request ended
	QPN       uint32 // number of the local QP
	VendorErr uint32 // error code that the vendor of the device has defined; 0 means none
}

func (e *CompletionError) Error() string {
	if e.VendorErr != 0 {
		return fmt.Sprintf("QP %#06x: %v (vendor error %#x)", e.QPN, e.Status, e.VendorErr)
	}
	return fmt.Sprintf("QP %#06x: %v", e.QPN, e.Status)
}

// unknown returns the text of a number that has no name in this package. A device or a
// library that is newer than this package can report such numbers.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
