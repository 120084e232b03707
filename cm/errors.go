package cm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"syscall"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Causes of errors, in addition to those of package verbs. Test for them with errors.Is.
var (
	// ErrRefused reports that the peer refused a connection or a datagram lookup, or that no
	// process of the peer's host has the UDP port of the wire path (soft.Config.WirePort).
	// Every *RejectError matches it.
	ErrRefused = errors.New("connection refused")
	// ErrTimedOut reports that the peer did not answer in time. Unreachable has it, and so
	// may AddrError, RouteError and Disconnected.
	ErrTimedOut = errors.New("timed out")
	// ErrStale reports that the peer does not know an established connection any more, for
	// example because it was restarted (IBTA vol. 1, 12.9.8.3.1). It comes with Disconnected.
	ErrStale = errors.New("stale connection: the peer does not have it any more")
	// ErrNoRoute reports that no device can reach the address. AddrError and RouteError may
	// have it, and Bind returns it.
	ErrNoRoute = errors.New("no route to the address")
	// ErrAddrInUse reports that the address and port are in use (EADDRINUSE).
	ErrAddrInUse = errors.New("address in use")
	// ErrAddrNotAvailable reports that the host does not have the address. It can also
	// mean that the port conflicts with a wildcard (EADDRNOTAVAIL).
	ErrAddrNotAvailable = errors.New("address not available")
	// ErrUserNotAllowed reports that one of two processes on a host does not allow the user
	// of the other one: see soft.Config.AllowedUsers. It is the Cause of a *RejectError.
	ErrUserNotAllowed = errors.New("user not allowed")
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
	names := [...]string{"ok", "no listener", "refused by the consumer", "no queue pair", "redirected", "unsupported version"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("lookup status", uint64(s))
}

// A RejectError reports that the peer refused a connection or a datagram lookup.
type RejectError struct {
	// Reason says why the peer refused the connection. For a lookup it is 0, and SIDR says
	// why.
	Reason RejectReason
	SIDR   SIDRStatus
	// PrivateData is the private data that came with the refusal, a second copy of
	// Event.Param.PrivateData. It may be padded with zeros to MaxPrivateData: see Text. The
	// slice belongs to the holder of the error.
	PrivateData []byte
	// ByApplication is true if the peer's application refused, and false if the peer's
	// host refused. Some transports do not know that. With them it is true if Reason is
	// RejectConsumer, or SIDR is SIDRReject, and PrivateData has a byte other than zero.
	ByApplication bool
	// Cause explains Reason or SIDR, and may be nil. It matches ErrUserNotAllowed if one
	// process does not allow the user of the other process.
	Cause error
}

func (e *RejectError) Error() string {
	failure, reason := "connection refused", fmt.Sprint(e.Reason)
	if e.SIDR != SIDROK {
		failure, reason = "datagram lookup refused", fmt.Sprint(e.SIDR)
	}
	switch text := e.Text(); {
	case e.ByApplication && text != "":
		return fmt.Sprintf("%s by the application: %q", failure, text)
	case e.ByApplication:
		return failure + " by the application"
	case e.Cause != nil:
		return fmt.Sprintf("%s: %s: %v", failure, reason, e.Cause)
	}
	return failure + ": " + reason
}

// Text returns the private data as text, without the zeros at its end. It is the argument of
// the peer's Reject, if that is a text. It may contain any bytes.
func (e *RejectError) Text() string { return string(bytes.TrimRight(e.PrivateData, "\x00")) }

// Is matches ErrRefused. With RejectNoResources or SIDRNoQP it also matches
// verbs.ErrNoResources. It matches neither ErrStale with RejectStale nor ErrTimedOut with
// RejectTimeout: see Reason.
func (e *RejectError) Is(target error) bool {
	return target == ErrRefused ||
		target == verbs.ErrNoResources && (e.Reason == RejectNoResources || e.SIDR == SIDRNoQP)
}

// Unwrap returns Cause, which may be nil.
func (e *RejectError) Unwrap() error { return e.Cause }

// An unreachableError reports that the peer will never answer.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return "unreachable: " + e.cause.Error() }
func (e *unreachableError) Unwrap() error { return e.cause }

// Is matches ErrRefused, unless a system error such as EHOSTUNREACH says that nobody refused.
func (e *unreachableError) Is(target error) bool {
	var system syscall.Errno
	return target == ErrRefused && (!errors.As(e.cause, &system) || system == syscall.ECONNREFUSED)
}

// statusTimedOut is -ETIMEDOUT of Linux. It is the same number on all systems.
const statusTimedOut = -110

// cause returns the error of an event, or nil if the event is not a failure.
func cause(raw *TransportEvent, ps PortSpace) error {
	switch {
	case raw.Type == Rejected:
		e := rejectError(raw)
		if raw.Status > 0 && raw.Status <= math.MaxUint16 {
			e.Reason = RejectReason(raw.Status)
		}
		return e
	case raw.Type == Unreachable && ps == UDP && raw.Status > 0 && raw.Status <= math.MaxUint8:
		e := rejectError(raw)
		e.SIDR = SIDRStatus(raw.Status)
		return e
	case raw.Type == Unreachable && (raw.Err == nil || raw.Status == statusTimedOut):
		return fmt.Errorf("%w: the peer does not answer", ErrTimedOut)
	case raw.Type == Unreachable:
		return &unreachableError{raw.Err}
	case raw.Err != nil:
		return raw.Err
	case raw.Status == statusTimedOut:
		return fmt.Errorf("%v: %w", raw.Type, ErrTimedOut)
	case raw.Status != 0 || raw.Type == AddrError || raw.Type == RouteError || raw.Type == ConnectError:
		return fmt.Errorf("%v: status %d", raw.Type, raw.Status)
	}
	return nil
}

func rejectError(raw *TransportEvent) *RejectError {
	return &RejectError{PrivateData: slices.Clone(raw.PrivateData), ByApplication: raw.ByApplication, Cause: raw.Err}
}

// unknown returns the text of a number without a name. Newer peers may send such
// numbers.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
