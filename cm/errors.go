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

// Causes of errors, in addition to those of package verbs. Test for them with errors.Is.
var (
	// ErrRefused reports that the peer refused a connection or a datagram lookup. Every
	// *RejectError matches it.
	ErrRefused = errors.New("connection refused")
	// ErrTimedOut reports that the peer did not answer in time.
	ErrTimedOut = errors.New("timed out")
	// ErrStale reports that the peer does not know the connection any more, for example
	// because it was restarted (IBTA vol. 1, 12.9.8.3.1).
	ErrStale = errors.New("stale connection: the peer does not have it any more")
	// ErrNoRoute reports that no device can reach the address.
	ErrNoRoute = errors.New("no route to the address")
	// ErrAddrInUse reports that the address and port are in use (EADDRINUSE).
	ErrAddrInUse = errors.New("address in use")
	// ErrAddrNotAvailable reports that the host does not have the address. It can also
	// mean that the port conflicts with a wildcard (EADDRNOTAVAIL).
	ErrAddrNotAvailable = errors.New("address not available")
)

// errNoDisconnectData is the reason of a *verbs.FeatureError: see rdma_disconnect(3).
var errNoDisconnectData = errors.New("the provider's call to disconnect takes none")

// RejectReason says why a connection request was refused (IBTA vol. 1, 12.6.7.2). A peer
// may also send numbers that have no name here.
type RejectReason uint16

// Reject reasons, numbered as in the REJ message.
const (
	RejectNoQP             RejectReason = 1  // no queue pair is available, or a queue pair number is not valid
	RejectNoResources      RejectReason = 3  // the peer has no room for the connection
	RejectTimeout          RejectReason = 4  // the sender of the refusal got no answer in time
	RejectUnsupported      RejectReason = 5  // the peer does not support the request
	RejectInvalidCommID    RejectReason = 6  // the communication ID is not valid or not known
	RejectInvalidInstance  RejectReason = 7  // the request is for an incompatible service
	RejectInvalidServiceID RejectReason = 8  // there is no listener
	RejectInvalidTransport RejectReason = 9  // the peer does not support the transport service
	RejectStale            RejectReason = 10 // the peer still has an old connection of the requesting queue pair
	RejectInvalidGID       RejectReason = 12 // the addresses in the request are not valid
	RejectInvalidMTU       RejectReason = 26 // the path MTU is not supported
	RejectNoResponderRes   RejectReason = 27 // the peer has too few responder resources
	RejectConsumer         RejectReason = 28 // the application refused
	RejectInvalidRNRRetry  RejectReason = 29 // the RNR retry count is not valid
	RejectDuplicateCommID  RejectReason = 30 // the communication ID is in use by another connection
	RejectInvalidVersion   RejectReason = 31 // the peer does not support the version of the message
	RejectVendorOption     RejectReason = 35 // the peer does not support an option of the vendor
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

// A RejectError reports that the peer refused the connection.
type RejectError struct {
	Reason RejectReason
	// PrivateData is the private data that came with the refusal. It may be padded with
	// zeros to 148 bytes: see Text. The slice belongs to the holder of the error.
	PrivateData []byte
	// ByApplication is true if the peer's application refused, and false if the peer's
	// host refused. Some transports do not know that. With them it is true if Reason is
	// RejectConsumer and PrivateData has a byte other than zero.
	ByApplication bool
	// Cause explains Reason, and may be nil. A *UserError means that one process does
	// not allow the user of the other process. A *MTUError means that the peer accepts
	// none of the path MTUs.
	Cause error
}

func (e *RejectError) Error() string {
	if !e.ByApplication {
		return withCause(fmt.Sprintf("connection refused: %v", e.Reason), e.Cause)
	}
	if text := e.Text(); text != "" {
		return fmt.Sprintf("connection refused by the application: %q", text)
	}
	return "connection refused by the application"
}

// Text returns the private data as text, without the zeros at its end. It is the argument of
// the peer's Reject, if that is a text. It may contain any bytes.
func (e *RejectError) Text() string { return string(bytes.TrimRight(e.PrivateData, "\x00")) }

// Is matches ErrRefused. With RejectNoResources it also matches verbs.ErrNoResources.
func (e *RejectError) Is(target error) bool {
	return target == ErrRefused || target == verbs.ErrNoResources && e.Reason == RejectNoResources
}

// Unwrap returns Cause, which may be nil.
func (e *RejectError) Unwrap() error { return e.Cause }

// withCause appends the cause, if there is one, to the text of a failure.
func withCause(failure string, cause error) string {
	if cause == nil {
		return failure
	}
	return fmt.Sprintf("%s: %v", failure, cause)
}

// An MTUError explains a refusal with RejectInvalidMTU. The device has tried one path
// MTU after the other, and the peer has refused them all.
type MTUError struct {
	// Largest is the first path MTU that was tried. It is the largest one that the port
	// of this side allows.
	Largest verbs.MTU
	// Smallest is the last path MTU that was tried.
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
	SIDRVersion     SIDRStatus = 5 // the listener does not support the version of the message
)

func (s SIDRStatus) String() string {
	names := [...]string{"ok", "no listener", "refused", "no queue pair", "redirected", "unsupported version"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("lookup status", uint64(s))
}

// An UnreachableError reports that the peer did not answer. In the UDP port space it can
// also report a refused datagram lookup. It matches ErrTimedOut or ErrRefused.
type UnreachableError struct {
	// SIDR is the status of a refused datagram lookup. If there was no answer, SIDR is
	// SIDROK.
	SIDR SIDRStatus
	// PrivateData is the private data that came with the refusal. The slice belongs to
	// the holder of the error.
	PrivateData []byte
	// ByApplication is true if the peer's application refused; see RejectError.
	ByApplication bool
	// Cause depends on the failure:
	//
	//   - After a timeout, Cause is nil.
	//   - If the peer refused the lookup, Cause explains SIDR. It may be nil.
	//   - If no answer will ever come, Cause is the reason. For example, it matches
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

// Is matches ErrTimedOut after a timeout, and ErrRefused in all other cases. If the peer
// had no queue pair for the lookup, the error also matches verbs.ErrNoResources.
func (e *UnreachableError) Is(target error) bool {
	if e.SIDR == SIDROK && e.Cause == nil {
		return target == ErrTimedOut
	}
	return target == ErrRefused || target == verbs.ErrNoResources && e.SIDR == SIDRNoQP
}

// A StatusError reports a failure of which only a number is known.
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

// statusTimedOut is -ETIMEDOUT of Linux. It is the same number on all systems.
const statusTimedOut = -110

// cause returns the error of an event, or nil if the event is not a failure.
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

// unknown returns the text of a number without a name. Newer peers may send such
// numbers.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
