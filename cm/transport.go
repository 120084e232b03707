package cm

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider is a verbs.Provider that also manages connections. An application opens a
// Provider and passes it to the reactor.
type Provider interface {
	verbs.Provider
	Transport
}

// A Transport is the part of a provider that manages connections. Its callers are
// EventChannel and ID. They check the parameters and the order of the calls, so a
// transport checks only what EventChannel and ID can not know. The package comment says
// which goroutines may call.
type Transport interface {
	// OpenChannel opens an event channel.
	OpenChannel() (TransportChannel, error)
}

// A TransportChannel is a queue of events, first in first out.
type TransportChannel interface {
	// FD returns a descriptor to wait on, for input, level-triggered. When it is
	// readable, the caller calls Next; there may be no event then. The channel owns the
	// descriptor.
	FD() int
	// Next does the work that is due and stores the oldest event in ev, or returns false
	// if there is none. It never blocks. The caller owns the event, but ev.PrivateData
	// may point into the transport's memory and is valid until the next call only.
	Next(ev *TransportEvent) (ok bool, err error)
	// NewID creates an ID whose events arrive on this channel.
	NewID(ps PortSpace) (TransportID, error)
	// Close closes the channel. The caller has destroyed its IDs before.
	Close() error
}

// A TransportEvent is an event as the transport reports it.
type TransportEvent struct {
	Type     EventType
	ID       TransportID // ID of the event; for ConnectRequest the new ID
	Listener TransportID // listening ID for ConnectRequest, else nil
	Status   int         // the number described at Event.Status
	// Err is the cause of AddrError, RouteError and ConnectError. For Rejected and
	// Unreachable it is the cause, if the transport knows more than the status. For a
	// Disconnected that the peer did not request, it is verbs.ErrPeerGone or ErrStale, if
	// the transport knows which.
	Err error
	// Param has the peer's parameters from this side's point of view, without private
	// data.
	Param MessageParam
	UD    UDParam
	// PrivateData is the peer's private data. Its length is exact if
	// Caps.ExactPrivateData is true.
	PrivateData []byte
	// ByApplication is true for a refusal by the peer's application.
	ByApplication bool
}

// A TransportID is one end of a connection, a listener, or a datagram lookup. Its
// methods implement the methods of ID with the same names.
type TransportID interface {
	// Bind binds the ID to a local address. Port 0 means any free port. The errors are
	// those of ID.Bind.
	Bind(addr netip.AddrPort) error
	// Listen starts to listen. The backlog is at least 1.
	Listen(backlog int) error
	// ResolveAddr starts to find the device for dst; src may be the zero value. The
	// result is the event AddrResolved or AddrError.
	ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error
	// ResolveRoute starts to find the route. The result is the event RouteResolved or
	// RouteError.
	ResolveRoute(timeout time.Duration) error

	// CreateQP creates a queue pair for this ID, in state INIT (RC) or RTS (UD).
	CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error)

	// Connect sends a connection request, or a lookup; param is never nil.
	Connect(param *MessageParam) error
	// Accept accepts a request; param is never nil.
	Accept(param *MessageParam) error
	// Reject refuses a request, or on an active ID without a QP the peer's response. The
	// reason is RejectConsumer, or RejectNoResources without private data. In the UDP
	// port space RejectNoResources is sent as SIDRNoQP. A transport that can not send
	// RejectNoResources sends RejectConsumer without private data.
	Reject(reason RejectReason, privateData []byte) error
	// Establish confirms an active connection without a QP.
	Establish() error
	// Notify, with AsyncCommEst, completes a passive connection on which a message
	// arrived before the peer's confirmation. The confirmation is then ignored, and the
	// event Established follows. If that event is already queued, the error matches
	// verbs.ErrState.
	Notify(event verbs.AsyncEventType) error
	// Disconnect moves the QP, if there is one, to the error state. It sends a
	// disconnect request to an established peer, or answers the peer's request. It may be
	// called again, and for a connection that is not established. It then sends nothing
	// and returns nil.
	Disconnect() error
	// InitQPAttr returns the attributes and the mask with which the caller moves a queue
	// pair that was not created on the ID to the given state.
	InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error)

	// Migrate moves the ID and its pending events to another channel of the same
	// transport.
	Migrate(to TransportChannel) error
	// SetOption sets one option. The caller has checked the value.
	SetOption(option Option, value int) error

	// Device returns the device to which the ID is bound, or nil. Port returns its port.
	Device() verbs.Device
	Port() uint8
	// LocalAddr and RemoteAddr return the zero value while the address is not known.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Destroy ends the ID: it cancels a pending operation, refuses an unanswered
	// request, and disconnects. Pending events of the ID are dropped. The caller has
	// closed the QP before. Destroy never blocks.
	Destroy() error
}

// A CredentialsReader is a TransportID that can report the process at the other end.
type CredentialsReader interface {
	// Credentials implements ID.Credentials.
	Credentials() (Credentials, bool)
}

// Option is an option of an ID. Source: rdma_set_option(3).
type Option uint8

// Options of an ID, with the range of their values.
const (
	OptionTOS        Option = iota // type of service, 0..255
	OptionReuseAddr                // 0 or 1: share the port with other IDs that set the option
	OptionAFOnly                   // 0 or 1: an IPv6 wildcard accepts IPv6 requests only
	OptionAckTimeout               // code for verbs.AckTimeout, 0..31; 0 means no timeout
	// OptionMinRNRTimer is a timer code for verbs.RNRDelay, 0..31. rdma_set_option(3) has
	// no such option.
	OptionMinRNRTimer
)

// DefaultMinRNRTimer is the code of the minimum RNR timer of an ID's queue pair, 0.64
// ms, unless ID.SetMinRNRTimer sets another.
const DefaultMinRNRTimer = 12

func (o Option) String() string {
	names := [...]string{"TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT", "MIN_RNR_TIMER"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("option", uint64(o))
}
