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
	// ErrBusy reports that an object is still in use. Other objects may be using it, or
	// it has events that are not acknowledged. Close and a few other methods return
	// ErrBusy.
	ErrBusy = errors.New("still in use")
	// ErrQueueFull reports a full work queue. It has room again after completions were
	// polled. A receive queue that has no places at all returns a *ParamError instead.
	ErrQueueFull = errors.New("queue full")
	// ErrState reports that the object's state does not allow the call.
	ErrState = errors.New("wrong state")
	// ErrForeign reports an argument that belongs to another device, protection domain
	// or provider.
	ErrForeign = errors.New("object of another device or domain")
	// ErrNotSupported reports a missing feature. It comes with a *FeatureError, which
	// names the feature and the reason.
	ErrNotSupported = errors.New("not supported")
	// ErrOverrun reports that the CQ received more completions than it can hold.
	ErrOverrun = errors.New("completion queue overrun")
	// ErrPeerGone reports that the peer's process has exited or has closed its side
	// without disconnecting.
	//
	// For a connection request it means that the request is no longer valid. Either the
	// sender has cancelled the request, or this host has dropped it.
	ErrPeerGone = errors.New("peer gone")
	// ErrNoResources reports that memory, descriptors or another resource is used up. If
	// a limit of DeviceAttr is reached, the error is a *ParamError instead.
	//
	// A peer refuses a connection if it has no room for it. The error then matches both
	// ErrNoResources and cm.ErrRefused.
	ErrNoResources = errors.New("no resources")
	// ErrProtocol reports that the peer violated the protocol.
	ErrProtocol = errors.New("protocol violation by the peer")
)

// An OpError names the operation that failed and wraps the cause. Err is one of the Err
// variables of this package, one of its error types, or a system error.
type OpError struct {
	Op  string // the operation, such as "create QP" or "post send"
	Err error
}

func (e *OpError) Error() string { return "rdma: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// A ParamError reports an argument that is missing or out of range. Its fields name the
// argument and the reason.
type ParamError struct {
	Field  string // name of the argument, such as "retry count"
	Value  int64
	Limit  int64  // largest allowed value; without meaning if Reason is set
	Reason string // rule that Value breaks; if empty, Value is above Limit
	// NotNumber is true if the argument is not a number, such as a missing CQ. Reason
	// then says what is wrong. Value and Limit have no meaning.
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

// A FeatureError reports that a device or the system does not have a feature. It matches
// ErrNotSupported.
type FeatureError struct {
	Feature string // name of the feature, such as "UDP_SEGMENT"
	Reason  error  // why the feature is missing
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Feature, ErrNotSupported, e.Reason)
}

// Is reports whether target is ErrNotSupported.
func (e *FeatureError) Is(target error) bool { return target == ErrNotSupported }

// Unwrap returns Reason.
func (e *FeatureError) Unwrap() error { return e.Reason }

// A CompletionError reports a work request that failed after it was posted. Status.Fault
// tells where the cause is.
type CompletionError struct {
	Status    Status // how the work request ended
	QPN       uint32 // number of the local QP
	VendorErr uint32 // error code of the device's vendor; 0 means none
}

func (e *CompletionError) Error() string {
	if e.VendorErr != 0 {
		return fmt.Sprintf("QP %#06x: %v (vendor error %#x)", e.QPN, e.Status, e.VendorErr)
	}
	return fmt.Sprintf("QP %#06x: %v", e.QPN, e.Status)
}

// unknown returns a text such as "port state 9" for a value without a name. Newer
// devices and libraries may report such values.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
