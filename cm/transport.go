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

// A Transport is the part of a provider that manages connections. Its callers,
// EventChannel and ID, check the parameters and the order of calls. See the package
// comment for goroutines.
type Transport interface {
	// OpenChannel opens an event channel. The caller closes it before the provider.
	OpenChannel() (TransportChannel, error)
}

// A TransportChannel is a queue of events, first in first out.
type TransportChannel interface {
	// FD returns the descriptor of the channel. When the descriptor is readable
	// (level-triggered), the caller calls Next, which may still find no event. The
	// channel owns the descriptor.
	FD() int
	// Next does the transport's pending work and stores the oldest event in ev. If there
	// is no event, Next returns false. It never blocks. ev.PrivateData is only valid
	// until Next is called again.
	Next(ev *TransportEvent) (ok bool, err error)
	// NewID creates an ID whose events arrive on this channel.
	NewID(ps PortSpace) (TransportID, error)
	// Close closes the channel, after the caller has destroyed the channel's IDs.
	Close() error
}

// A TransportEvent is an event as the transport reports it.
type TransportEvent struct {
	Type     EventType
	ID       TransportID // ID to which the event belongs; for ConnectRequest the new ID
	Listener TransportID // listening ID for ConnectRequest, and nil for other events
	Status   int         // see Event.Status for the possible numbers
	// Err is the cause of AddrError, RouteError and ConnectError. For Rejected and
	// Unreachable it may say more than Status. For Disconnected it may be
	// verbs.ErrPeerGone or ErrStale.
	Err error
	// Param has the peer's parameters from this side's point of view, without private
	// data.
	Param MessageParam
	UD    UDParam
	// PrivateData is the peer's private data. If Caps.ExactPrivateData is false, it may
	// be padded with zeros.
	PrivateData []byte
	// ByApplication is true for a refusal by the peer's application.
	ByApplication bool
}

// A TransportID is a listener, a datagram lookup, or one end of a connection. Its
// methods implement those of ID.
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

	// CreateQP creates a queue pair for this ID. An RC queue pair is in state INIT
	// afterwards, a UD queue pair in state RTS.
	CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error)

	// Connect sends a connection request, or in the UDP port space a lookup. The caller
	// never passes a nil param.
	Connect(param *MessageParam) error
	// Accept accepts a request. The caller never passes a nil param.
	Accept(param *MessageParam) error
	// Reject refuses a request. On an active ID without a QP it refuses the peer's
	// response. The reasons:
	//
	//   - RejectConsumer; in the UDP port space SIDRReject is sent.
	//   - RejectNoResources, without private data; in the UDP port space SIDRNoQP is
	//     sent. A transport may send RejectConsumer or SIDRReject instead.
	Reject(reason RejectReason, privateData []byte) error
	// Establish confirms a connection on an active ID without a QP.
	Establish() error
	// Notify is called with AsyncCommEst when a message has arrived before the peer's
	// confirmation. Established follows, and the confirmation is ignored. If Established
	// is already queued, the error matches verbs.ErrState.
	Notify(event verbs.AsyncEventType) error
	// Disconnect moves the QP, if there is one, to the error state. It answers the
	// peer's disconnect request. On an established connection, it sends a disconnect
	// request. In all other cases it sends nothing and returns nil.
	Disconnect() error
	// InitQPAttr returns the attributes and the mask for moving the application's own
	// queue pair to the given state.
	InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error)

	// Migrate moves the ID and its pending events to another channel of the same
	// transport.
	Migrate(to TransportChannel) error
	// SetOption sets one option. The caller has checked the value.
	SetOption(option Option, value int) error

	// Device returns the device to which the ID is bound, or nil. Port returns the number
	// of the port of that device.
	Device() verbs.Device
	Port() uint8
	// LocalAddr and RemoteAddr return the zero value while the address is not known.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Destroy ends the ID, after the caller has closed the QP. It cancels a pending
	// operation, refuses an unanswered request, and disconnects. It drops events that
	// Next has not returned. It never blocks.
	Destroy() error
}

// A CredentialsReader is a TransportID that can report the peer's credentials.
type CredentialsReader interface {
	// Credentials implements ID.Credentials. The result is false if the transport does
	// not know the process.
	Credentials() (Credentials, bool)
}

// Option is an option of an ID. Source: rdma_set_option(3).
type Option uint8

// Options of an ID, with the range of their values.
const (
	OptionTOS        Option = iota // type of service, 0..255
	OptionReuseAddr                // 0 or 1; 1: share the port with other IDs that set the option
	OptionAFOnly                   // 0 or 1; 1: on an IPv6 wildcard, accept IPv6 requests only
	OptionAckTimeout               // code for verbs.AckTimeout, 0..31; 0 means no timeout
	// OptionMinRNRTimer is a timer code for verbs.RNRDelay, 0..31. rdma_set_option(3) has
	// no such option.
	OptionMinRNRTimer
)

// DefaultMinRNRTimer is the code of the default minimum RNR timer, 0.64 ms.
// rdma_accept(3) of 2014 specifies code 0 (655 ms), which is too slow.
const DefaultMinRNRTimer = 12

func (o Option) String() string {
	names := [...]string{"TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT", "MIN_RNR_TIMER"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("option", uint64(o))
}
