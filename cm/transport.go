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

// A Transport is the part of a provider that manages connections. Only EventChannel and
// ID call the methods of a transport and of its channels and IDs. EventChannel and ID
// check the parameters and the order of the calls; a transport checks only what
// EventChannel and ID can not know, such as whether an address is in use. The package
// comment says which goroutines may call.
type Transport interface {
	// OpenChannel opens an event channel. The caller closes it before the provider.
	OpenChannel() (TransportChannel, error)
}

// A TransportChannel is a queue of events, first in first out.
type TransportChannel interface {
	// FD returns the descriptor of the channel. The caller waits until the descriptor is
	// readable (level-triggered), and then calls Next, which may nevertheless find no
	// event. The channel owns the descriptor.
	FD() int
	// Next first does what the transport has to do on the goroutine of the caller, such
	// as processing received connection messages. Then it stores the oldest event in ev.
	// If there is no event, Next returns false. Next never blocks. The caller owns the
	// event, except that ev.PrivateData may point into the transport's memory, which is
	// valid until the next call of Next.
	Next(ev *TransportEvent) (ok bool, err error)
	// NewID creates an ID whose events arrive on this channel.
	NewID(ps PortSpace) (TransportID, error)
	// Close closes the channel. The caller has destroyed the IDs of the channel before.
	Close() error
}

// A TransportEvent is an event as the transport reports it.
type TransportEvent struct {
	Type     EventType
	ID       TransportID // ID to which the event belongs; for ConnectRequest the new ID
	Listener TransportID // listening ID for ConnectRequest, and nil for other events
	Status   int         // number that Event.Status describes
	// Err is the cause of AddrError, RouteError and ConnectError. For Rejected and
	// Unreachable it is nil, unless the transport knows more than Status. For
	// Disconnected it is verbs.ErrPeerGone or ErrStale if the transport knows that the
	// connection has ended for this reason, without a disconnect request of the peer.
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

	// CreateQP creates a queue pair for this ID. An RC queue pair is in state INIT
	// afterwards, a UD queue pair in state RTS.
	CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error)

	// Connect sends a connection request, or in the UDP port space a lookup. The caller
	// never passes a nil param.
	Connect(param *MessageParam) error
	// Accept accepts a request. The caller never passes a nil param.
	Accept(param *MessageParam) error
	// Reject refuses a request. On an active ID without a QP it refuses the peer's
	// response. The reason is RejectConsumer, or RejectNoResources without private data.
	// In the UDP port space RejectNoResources is sent as SIDRNoQP. A transport that can
	// not send RejectNoResources sends RejectConsumer without private data.
	Reject(reason RejectReason, privateData []byte) error
	// Establish confirms a connection on an active ID without a QP.
	Establish() error
	// Notify is called with AsyncCommEst when a message has arrived on a passive
	// connection before the peer's confirmation. Notify completes the connection: the
	// event Established follows, and the confirmation is ignored. If that event is
	// already queued, the error matches verbs.ErrState.
	Notify(event verbs.AsyncEventType) error
	// Disconnect moves the QP, if there is one, to the error state. If the peer has sent
	// a disconnect request, Disconnect answers the request. Otherwise Disconnect sends a
	// disconnect request if the connection is established. In all other cases, and in a
	// second call, Disconnect sends nothing and returns nil.
	Disconnect() error
	// InitQPAttr returns the attributes and the mask with which the caller moves a queue
	// pair that was not created on the ID to the given state.
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

	// Destroy ends the ID: it cancels a pending operation, refuses an unanswered
	// request, and disconnects. Events of the ID that Next has not returned are dropped.
	// The caller has closed the QP before. Destroy never blocks.
	Destroy() error
}

// A CredentialsReader is a TransportID that can report the credentials of the process at
// the other end of the connection.
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

// DefaultMinRNRTimer is the code of the minimum RNR timer of an ID's queue pair, unless
// ID.SetMinRNRTimer sets another code. It means 0.64 ms.
const DefaultMinRNRTimer = 12

func (o Option) String() string {
	names := [...]string{"TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT", "MIN_RNR_TIMER"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("option", uint64(o))
}
