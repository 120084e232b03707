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
	// ErrBusy reports that an object is still in use: other objects use it, or it has
	// events that are not acknowledged. Close and a few other methods return ErrBusy.
	ErrBusy = errors.New("still in use")
	// ErrQueueFull reports a full work queue. It has room again after a poll of
	// completions. A receive queue of length 0 (QPCaps.MaxRecvWR) causes a *ParamError
	// instead.
	ErrQueueFull = errors.New("queue full")
	// ErrState reports that the object's state does not allow the call.
	ErrState = errors.New("wrong state")
	// ErrForeign reports an argument from another device, protection domain or provider.
	ErrForeign = errors.New("object of another device or domain")
	// ErrNotSupported reports a missing feature. The error is a *FeatureError, which
	// names the feature and the reason.
	ErrNotSupported = errors.New("not supported")
	// ErrOverrun reports that the CQ received more completions than it can hold.
	ErrOverrun = errors.New("completion queue overrun")
	// ErrPeerGone reports that the peer's process has exited, or has closed its side
	// without disconnecting. For a connection request it means that the sender has
	// cancelled the request, or that this host has dropped the request.
	ErrPeerGone = errors.New("peer gone")
	// ErrNoResources reports that memory, descriptors or another resource is used up. If
	// a limit of DeviceAttr is reached, the error is a *ParamError instead. If a peer
	// without room refuses a connection, the error matches ErrNoResources and
	// cm.ErrRefused.
	ErrNoResources = errors.New("no resources")
	// ErrProtocol reports that the peer violated the protocol.
	ErrProtocol = errors.New("protocol violation by the peer")
)

// An OpError names the operation that failed. Err is an Err variable of this package, a
// *ParamError, *TransitionError, *FeatureError or *CompletionError, or a system error.
type OpError struct {
	Op  string // the operation, such as "create QP" or "post send"
	Err error
}

func (e *OpError) Error() string { return "rdma: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// A ParamError reports an argument that is missing or out of range. The fields name the
// argument and the reason.
type ParamError struct {
	Field  string // name of the argument, such as "retry count"
	Value  int64
	Limit  int64  // largest allowed value; it has no meaning if Reason is set
	Reason string // rule that Value breaks; empty means that Value is above Limit
	// NotNumber is true if the argument is not a number, such as a missing CQ. Reason is
	// then set, and Value and Limit have no meaning.
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

// unknown returns a text such as "port state 9" for a value that has no name. A newer
// device or library can report such values.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
