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

// Causes of errors besides those of verbs; test with errors.Is.
var (
	// ErrRefused matches every *RejectError and every refused datagram lookup.
	ErrRefused = errors.New("connection refused")
	// ErrTimedOut: nobody answered in time.
	ErrTimedOut = errors.New("timed out")
	// ErrStale: the peer has forgotten the connection. The peer has requested another
	// connection with the same queue pair, as it does after a restart (IBTA vol. 1,
	// 12.9.8.3.1).
	ErrStale = errors.New("stale connection: the peer has forgotten it")
	// ErrNoRoute: no device leads to the address.
	ErrNoRoute = errors.New("no route to the address")
	// ErrAddrInUse: the address and port are taken (EADDRINUSE).
	ErrAddrInUse = errors.New("address in use")
	// ErrAddrNotAvailable: the address is not one of this host, or the port
	// clashes with a wildcard (EADDRNOTAVAIL).
	ErrAddrNotAvailable = errors.New("address not available")
)

// RejectReason is why a connection request was turned away (IBTA vol. 1,
// 12.6.7.2). Values without a name are passed through.
type RejectReason uint16

// Reasons that occur; the numbers are those of the wire.
const (
	RejectNoQP             RejectReason = 1
	RejectNoResources      RejectReason = 3
	RejectTimeout          RejectReason = 4
	RejectUnsupported      RejectReason = 5
	RejectInvalidCommID    RejectReason = 6
	RejectInvalidInstance  RejectReason = 7
	RejectInvalidServiceID RejectReason = 8
	RejectInvalidTransport RejectReason = 9
	RejectStale            RejectReason = 10
	RejectInvalidGID       RejectReason = 12
	RejectInvalidMTU       RejectReason = 26
	RejectNoResponderRes   RejectReason = 27
	RejectConsumer         RejectReason = 28
	RejectInvalidRNRRetry  RejectReason = 29
	RejectDuplicateCommID  RejectReason = 30
	RejectInvalidVersion   RejectReason = 31
	RejectVendorOption     RejectReason = 35
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
		return "nobody listens"
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

// A RejectError says that the other side turned the connection away.
type RejectError struct {
	Reason RejectReason
	// PrivateData is what the peer sent along, with ByApplication the reason in
	// its own words: a copy, the holder's. It may be padded with zeros to 148
	// bytes, see ConnParam.PrivateData.
	PrivateData []byte
	// ByApplication is true when the peer's application refused. It is false when the
	// peer's host refused without the application: no listener, a listener that closed, a
	// request that was dropped without an answer, no room for the connection
	// (RejectNoResources). Where the transport can not tell the two apart, it is true for
	// RejectConsumer with private data.
	ByApplication bool
	// Cause is the cause of the refusal, where the transport knows more than Reason: a
	// *UserError when one process does not allow the user of the other, a *MTUError when
	// the peer takes no path MTU that this side has asked for. Nil means that only Reason
	// is known.
	Cause error
}

func (e *RejectError) Error() string {
	if !e.ByApplication {
		return because(fmt.Sprintf("connection refused: %v", e.Reason), e.Cause)
	}
	if said := bytes.TrimRight(e.PrivateData, "\x00"); len(said) > 0 {
		return fmt.Sprintf("connection refused by the application: %q", said)
	}
	return "connection refused by the application"
}

// Is reports true for ErrRefused, and for verbs.ErrNoResources when the peer had no
// room for the connection.
func (e *RejectError) Is(target error) bool {
	return target == ErrRefused || target == verbs.ErrNoResources && e.Reason == RejectNoResources
}

// Unwrap returns Cause, which may be nil.
func (e *RejectError) Unwrap() error { return e.Cause }

// because appends the cause of a failure to its description, if the cause is not nil.
func because(what string, cause error) string {
	if cause == nil {
		return what
	}
	return fmt.Sprintf("%s: %v", what, cause)
}

// An MTUError is the cause of a refusal with RejectInvalidMTU. The device has
// repeated the request with smaller and smaller path MTUs, and the peer has refused
// each.
type MTUError struct {
	// Largest is the path MTU of the first request: the MTU of the path from this side.
	Largest verbs.MTU
	// Smallest is the path MTU of the last request.
	Smallest verbs.MTU
}

func (e *MTUError) Error() string {
	return fmt.Sprintf("the peer takes no path MTU from %d down to %d bytes", e.Largest.Bytes(), e.Smallest.Bytes())
}

// SIDRStatus is the status of a reply to a datagram lookup (IBTA vol. 1,
// 12.11.2).
type SIDRStatus uint8

// Statuses of a datagram lookup.
const (
	SIDROK          SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1 // nobody listens
	SIDRReject      SIDRStatus = 2
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4
	SIDRVersion     SIDRStatus = 5
)

func (s SIDRStatus) String() string {
	names := [...]string{"ok", "nobody listens", "refused", "no queue pair", "redirected", "unsupported version"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("lookup status", uint64(s))
}

// An UnreachableError says that a peer did not answer, or that a datagram lookup was
// refused. It matches ErrTimedOut when nobody answered in time, and ErrRefused
// otherwise.
type UnreachableError struct {
	// SIDR is the status of a refused datagram lookup, or SIDROK when nobody
	// answered.
	SIDR SIDRStatus
	// PrivateData is what a refusing peer sent along: a copy, the holder's.
	PrivateData []byte
	// ByApplication is as in RejectError.
	ByApplication bool
	// Cause is as in RejectError. With SIDROK it says why no answer will come: it matches
	// syscall.ECONNREFUSED when the peer's host has reported by ICMP that no process has
	// the UDP port of the requests. Nil means that nobody has answered in time.
	Cause error
}

func (e *UnreachableError) Error() string {
	switch {
	case e.SIDR == SIDROK && e.Cause == nil:
		return "unreachable: no answer"
	case e.SIDR == SIDROK:
		return because("unreachable", e.Cause)
	}
	return because(fmt.Sprintf("datagram lookup: %v", e.SIDR), e.Cause)
}

// Unwrap returns Cause, which may be nil.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Is reports true for ErrTimedOut when nobody answered in time, and for ErrRefused
// otherwise. It also reports true for verbs.ErrNoResources when the peer had no queue
// pair to name.
func (e *UnreachableError) Is(target error) bool {
	if e.SIDR == SIDROK && e.Cause == nil {
		return target == ErrTimedOut
	}
	return target == ErrRefused || target == verbs.ErrNoResources && e.SIDR == SIDRNoQP
}

// A StatusError is the cause of a failure of which nothing but the event's
// status is known.
type StatusError struct {
	Type   EventType
	Status int // a negated errno of Linux, or a number of the transport
}

func (e *StatusError) Error() string {
	return e.Type.String() + ": status " + strconv.Itoa(e.Status)
}

// Is makes errors.Is(err, ErrTimedOut) hold for -ETIMEDOUT.
func (e *StatusError) Is(target error) bool {
	return target == ErrTimedOut && e.Status == statusTimedOut
}

// statusTimedOut is -ETIMEDOUT as Linux numbers it, on whatever system.
const statusTimedOut = -110

// cause makes an error of an event that reports a failure. A status that does
// not fit its type becomes 0, which has no name.
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

// unknown names a value that has no name; peers newer than this package may
// send such, and they are passed through.
func unknown(what string, value uint64) string {
	return what + " " + strconv.FormatUint(value, 10)
}
