package verbs

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// These errors are causes that an OpError wraps. Use errors.Is to test for them.
var (
	// ErrClosed reports a call on a closed object.
	ErrClosed = errors.New("closed")
	// ErrBusy reports that an object is still in use: another object uses it, or some of
	// its events are not acknowledged. Close and a few other methods return ErrBusy.
	ErrBusy = errors.New("still in use")
	// ErrQueueFull reports that a work queue is full. The queue has room again after
	// completions were polled. For a receive queue of length 0 the error is a *ParamError
	// instead.
	ErrQueueFull = errors.New("queue full")
	// ErrState reports that an object is in a state in which the call is not allowed.
	ErrState = errors.New("wrong state")
	// ErrForeign reports an argument that belongs to another device, protection domain
	// or provider.
	ErrForeign = errors.New("object of another device or domain")
	// ErrNotSupported reports a missing feature. The error is a *FeatureError, which names
	// the feature and the reason, and matches ErrNotSupported.
	ErrNotSupported = errors.New("not supported")
	// ErrOverrun reports that a CQ received more completions than it can hold.
	ErrOverrun = errors.New("completion queue overrun")
	// ErrPeerGone reports that the peer's process has exited, or that the process has
	// closed its side of the connection without disconnecting.
	//
	// As the error of a call on a connection request, ErrPeerGone means that the request is
	// no longer valid: the sender has cancelled the request, or this host has dropped it.
	ErrPeerGone = errors.New("peer gone")
	// ErrNoResources reports that memory, descriptors or another resource is used up. If a
	// limit of DeviceAttr is reached, the error is a *ParamError instead.
	//
	// If a peer refuses a connection because the peer lacks resources, the error matches
	// both ErrNoResources and cm.ErrRefused.
	ErrNoResources = errors.New("no resources")
	// ErrProtocol reports that the peer violated the protocol.
	ErrProtocol = errors.New("protocol violation by the peer")
)

// An OpError names the operation that failed and wraps the cause. The field Err holds the
// cause: one of the Err variables of this package, one of the error types of this
// package, or a system error.
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
	Field string // name of the argument, such as "retry count"
	Value int64
	// Limit is the largest allowed value, or the smallest one if Value is below it. If Reason
	// is set, it has a meaning only where the comment of the call says so.
	Limit  int64
	Reason string // rule that Value violates; if empty, Value is out of the range that Limit ends
	// NotNumber is true if the argument is not a number, such as a missing CQ. In this
	// case, Reason says what is wrong, and Value and Limit have no meaning.
	NotNumber bool
	Duration  bool // true if Value and Limit are times in nanoseconds
}

func (e *ParamError) Error() string {
	switch {
	case e.NotNumber:
		return e.Field + ": " + e.Reason
	case e.Reason != "":
		return fmt.Sprintf("%s %v: %s", e.Field, e.number(e.Value), e.Reason)
	case e.Value < e.Limit:
		return fmt.Sprintf("%s %v: the minimum is %v", e.Field, e.number(e.Value), e.number(e.Limit))
	}
	return fmt.Sprintf("%s %v: the limit is %v", e.Field, e.number(e.Value), e.number(e.Limit))
}

// number returns a value for the text of the error.
func (e *ParamError) number(v int64) any {
	if e.Duration {
		return time.Duration(v)
	}
	return v
}

// A FeatureError reports that a device or the system does not have a feature. Every
// FeatureError matches ErrNotSupported.
type FeatureError struct {
	Feature string // name of the feature, such as "UDP_SEGMENT"
	Reason  error  // error that says why the feature is missing
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Feature, ErrNotSupported, e.Reason)
}

// Is reports whether target is ErrNotSupported.
func (e *FeatureError) Is(target error) bool { return target == ErrNotSupported }

// Unwrap returns Reason.
func (e *FeatureError) Unwrap() error { return e.Reason }

// A CompletionError reports a work request that failed after it was posted. The method
// Status.Fault tells on which side the cause is.
type CompletionError struct {
	Status    Status // says why the work request failed
	QPN       uint32 // number of the local QP
	VendorErr uint32 // error code of the device's vendor; 0 means none
}

func (e *CompletionError) Error() string {
	if e.VendorErr != 0 {
		return fmt.Sprintf("QP %#06x: %v (vendor error %#x)", e.QPN, e.Status, e.VendorErr)
	}
	return fmt.Sprintf("QP %#06x: %v", e.QPN, e.Status)
}

// unknown returns a text such as "port state 9" for a value that has no name. Devices and
// libraries that are newer than this package may report such values.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
