package cm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Causes of errors in addition to those of package verbs. Test for them with errors.Is.
var (
	// ErrRefused matches every *RejectError and the error of a refused datagram lookup.
	ErrRefused = errors.New("connection refused")
	// ErrTimedOut reports that the peer did not answer in time.
	ErrTimedOut = errors.New("timed out")
	// ErrStale reports that the peer does not have the connection any more, for example
	// after a restart (IBTA vol. 1, 12.9.8.3.1).
	ErrStale = errors.New("stale connection: the peer does not have it any more")
	// ErrNoRoute reports that no device can reach the address.
	ErrNoRoute = errors.New("no route to the address")
	// ErrAddrInUse reports that the address and port are in use (EADDRINUSE).
	ErrAddrInUse = errors.New("address in use")
	// ErrAddrNotAvailable reports that the host does not have the address, or that the
	// port conflicts with a wildcard (EADDRNOTAVAIL).
	ErrAddrNotAvailable = errors.New("address not available")
)

// RejectReason is the reason of a refused connection request (IBTA vol. 1, 12.6.7.2). A
// peer may send values that have no name here.
type RejectReason uint16

// Reject reasons, with the numbers of the REJ message.
const (
	RejectNoQP             RejectReason = 1  // no queue pair is available, or its number is not valid
	RejectNoResources      RejectReason = 3  // the peer has no room for the connection
	RejectTimeout          RejectReason = 4  // the sender of the REJ got no answer in time
	RejectUnsupported      RejectReason = 5  // the peer does not support the request
	RejectInvalidCommID    RejectReason = 6  // the communication ID is not valid, for example unknown
	RejectInvalidInstance  RejectReason = 7  // the request is for an incompatible service
	RejectInvalidServiceID RejectReason = 8  // there is no listener
	RejectInvalidTransport RejectReason = 9  // the peer does not support the transport service
	RejectStale            RejectReason = 10 // the requesting queue pair still has an old connection at the peer
	RejectInvalidGID       RejectReason = 12 // the addresses in the request are not valid
	RejectInvalidMTU       RejectReason = 26 // the path MTU is not supported
	RejectNoResponderRes   RejectReason = 27 // the peer has too few responder resources
	RejectConsumer         RejectReason = 28 // the application refused
	RejectInvalidRNRRetry  RejectReason = 29 // the RNR retry count is not valid
	RejectDuplicateCommID  RejectReason = 30 // another connection has the communication ID in the message
	RejectInvalidVersion   RejectReason = 31 // the version of the message is not supported
	RejectVendorOption     RejectReason = 35 // an option of the vendor is not supported
)

func (r RejectReason) String() string {
	switch r {
	case RejectNoQP:
		return "no queue pair"
	case RejectNoResources:
		return "no resources"
	case RejectTimeout:
		return "timeout"
	case RejectUnsupported:
		return "unsupported request"
	case RejectInvalidCommID:
		return "invalid communication id"
	case RejectInvalidInstance:
		return "invalid communication instance"
	case RejectInvalidServiceID:
		return "no listener"
	case RejectInvalidTransport:
		return "invalid transport type"
	case RejectStale:
		return "stale connection"
	case RejectInvalidGID:
		return "invalid GID"
	case RejectInvalidMTU:
		return "invalid path MTU"
	case RejectNoResponderRes:
		return "insufficient responder resources"
	case RejectConsumer:
		return "refused by the consumer"
	case RejectInvalidRNRRetry:
		return "invalid RNR retry count"
	case RejectDuplicateCommID:
		return "duplicate communication id"
	case RejectInvalidVersion:
		return "invalid version"
	case RejectVendorOption:
		return "vendor option not supported"
	}
	return unknown("reject reason", uint64(r))
}

// A RejectError reports that the other side refused the connection.
type RejectError struct {
	Reason RejectReason
	// PrivateData is the private data of the refusal, perhaps padded with zeros to 148
	// bytes. The holder of the error owns the slice.
	PrivateData []byte
	// ByApplication is true if the peer's application refused, and false if the peer's
	// host refused. If a transport does not know, it is true for RejectConsumer with
	// private data that is not all zero.
	ByApplication bool
	// Cause explains Reason, or is nil. It is a *UserError if one process does not
	// accept the user of the other process. It is a *MTUError if the peer accepts none
	// of the path MTUs.
	Cause error
}

func (e *RejectError) Error() string {
	if !e.ByApplication {
		return withCause(fmt.Sprintf("connection refused: %v", e.Reason), e.Cause)
	}
	if said := bytes.TrimRight(e.PrivateData, "\x00"); len(said) > 0 {
		return fmt.Sprintf("connection refused by the application: %q", said)
	}
	return "connection refused by the application"
}

// Is reports whether target is ErrRefused. For RejectNoResources, the error also matches
// verbs.ErrNoResources.
func (e *RejectError) Is(target error) bool {
	return target == ErrRefused || target == verbs.ErrNoResources && e.Reason == RejectNoResources
}

// Unwrap returns Cause, which may be nil.
func (e *RejectError) Unwrap() error { return e.Cause }

// withCause returns the text of a failure and its cause. A nil cause adds nothing.
func withCause(failure string, cause error) string {
	if cause == nil {
		return failure
	}
	return fmt.Sprintf("%s: %v", failure, cause)
}

// An MTUError is the cause of a refusal with RejectInvalidMTU. The device of this side
// has tried all path MTUs from Largest down to Smallest.
type MTUError struct {
	// Largest is the path MTU in the first request. It is the largest path MTU that the
	// port of this side allows.
	Largest verbs.MTU
	// Smallest is the path MTU in the last request.
	Smallest verbs.MTU
}

func (e *MTUError) Error() string {
	return fmt.Sprintf("the peer takes no path MTU from %d down to %d bytes", e.Largest.Bytes(), e.Smallest.Bytes())
}

// SIDRStatus is the status in the answer to a datagram lookup (IBTA vol. 1, 12.11.2).
type SIDRStatus uint8

// Statuses of a datagram lookup.
const (
	SIDROK          SIDRStatus = 0 // success
	SIDRUnsupported SIDRStatus = 1 // no listener
	SIDRReject      SIDRStatus = 2
	SIDRNoQP        SIDRStatus = 3 // the listener has no queue pair for the sender
	SIDRRedirect    SIDRStatus = 4 // the service is at another address
	SIDRVersion     SIDRStatus = 5 // the version of the message is not supported
)

func (s SIDRStatus) String() string {
	names := [...]string{"ok", "no listener", "refused", "no queue pair", "redirected", "unsupported version"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("lookup status", uint64(s))
}

// An UnreachableError reports that the peer did not answer, or that it refused a
// datagram lookup. It matches ErrTimedOut or ErrRefused.
type UnreachableError struct {
	// SIDR is the status of a refused datagram lookup, or SIDROK if there was no answer.
	SIDR SIDRStatus
	// PrivateData is the private data of the refusal. The slice is a copy that belongs
	// to the holder of the error.
	PrivateData []byte
	// ByApplication is true if the peer's application refused; see RejectError.
	ByApplication bool
	// Cause depends on the failure:
	//
	//   - If the peer refused the lookup, Cause explains SIDR, or is nil.
	//   - If the time ran out, Cause is nil.
	//   - If no answer will come, Cause is the reason. For example, Cause matches
	//     syscall.ECONNREFUSED if no process uses the peer's UDP port.
	Cause error
}

func (e *UnreachableError) Error() string {
	switch {
	case e.SIDR == SIDROK && e.Cause == nil:
		return "unreachable: no answer"
	case e.SIDR == SIDROK:
		return withCause("unreachable", e.Cause)
	}
	return withCause(fmt.Sprintf("datagram lookup: %v", e.SIDR), e.Cause)
}

// Unwrap returns Cause, which may be nil.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Is implements errors.Is. The error matches ErrTimedOut after a timeout, and otherwise
// ErrRefused. If the peer had no queue pair for the lookup, the error also matches
// verbs.ErrNoResources.
func (e *UnreachableError) Is(target error) bool {
	if e.SIDR == SIDROK && e.Cause == nil {
		return target == ErrTimedOut
	}
	return target == ErrRefused || target == verbs.ErrNoResources && e.SIDR == SIDRNoQP
}

// A StatusError is the error of a failure of which the transport reports only a number.
type StatusError struct {
	Type   EventType // type of the event
	Status int       // a negated errno of Linux, or a number of the transport
}

func (e *StatusError) Error() string {
	return e.Type.String() + ": status " + strconv.Itoa(e.Status)
}

// Is reports whether target is ErrTimedOut and the status is -ETIMEDOUT.
func (e *StatusError) Is(target error) bool {
	return target == ErrTimedOut && e.Status == statusTimedOut
}

// statusTimedOut is the number -ETIMEDOUT of Linux, which this package uses on every
// system.
const statusTimedOut = -110

// cause returns the error of an event that reports a failure, and nil for other events.
func cause(raw *TransportEvent, ps PortSpace) error {
	switch raw.Type {
	case Rejected:
		e := &RejectError{PrivateData: slices.Clone(raw.PrivateData), ByApplication: raw.ByApplication, Cause: raw.Err}
		if raw.Status > 0 && raw.Status <= math.MaxUint16 {
			e.Reason = RejectReason(raw.Status)
		}
		return e
	case Unreachable:
		e := &UnreachableError{PrivateData: slices.Clone(raw.PrivateData), ByApplication: raw.ByApplication, Cause: raw.Err}
		if ps == UDP && raw.Status > 0 && raw.Status <= math.MaxUint8 {
			e.SIDR = SIDRStatus(raw.Status)
		}
		return e
	}
	if raw.Err != nil {
		return raw.Err
	}
	if raw.Status != 0 || raw.Type == AddrError || raw.Type == RouteError || raw.Type == ConnectError {
		return &StatusError{Type: raw.Type, Status: raw.Status}
	}
	return nil
}

// unknown returns the text of a number without a name. A peer with a newer protocol can
// send such numbers.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
