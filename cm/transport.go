package cm

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider is a verbs.Provider that also manages connections. A program opens a
// Provider and passes it to the reactor.
type Provider interface {
	verbs.Provider
	Transport
}

// A Transport is the part of a provider that manages connections. EventChannel and ID
// call it. They check the parameters and the order of the calls. The package comment
// says which goroutines may call the methods.
type Transport interface {
	// OpenChannel opens an event channel. The caller closes it before the provider. It is for
	// this package: programs call the function OpenChannel.
	OpenChannel() (TransportChannel, error)
}

// A TransportChannel is a queue of events. The oldest event comes first.
type TransportChannel interface {
	// FD returns the descriptor of the channel, for level-triggered polling. While it is
	// readable, the caller calls Next. Sometimes Next finds no event. The channel owns
	// the descriptor.
	FD() int
	// Next does the transport's pending work and stores the oldest event in ev. If there
	// is no event, Next returns false. It never blocks. ev.PrivateData is valid until
	// Next is called again.
	Next(ev *TransportEvent) (ok bool, err error)
	// NewID creates an ID whose events arrive on this channel.
	NewID(ps PortSpace) (TransportID, error)
	// Close closes the channel. The caller has destroyed the channel's IDs before.
	Close() error
}

// A TransportEvent is an event as the transport reports it.
type TransportEvent struct {
	Type     EventType
	ID       TransportID // ID of the event; for ConnectRequest the new ID
	Listener TransportID // listening ID for ConnectRequest; nil for other events
	Status   int         // the number in Event.Status
	// Err is the cause of AddrError, RouteError and ConnectError. For Rejected and
	// Unreachable it may say more than Status does. For Disconnected it may be
	// verbs.ErrPeerGone or ErrStale.
	Err error
	// Param has the peer's parameters, seen from this side. Its PrivateData is not used.
	Param MessageParam
	UD    UDParam
	// PrivateData is the peer's private data, for Event.Param.PrivateData. It may be padded
	// with zeros, unless Caps.ExactPrivateData is true.
	PrivateData []byte
	// ByApplication is true if the peer's application refused.
	ByApplication bool
}

// A TransportID is one end of a connection, a listener, or a datagram lookup. Its
// methods implement the methods of ID.
type TransportID interface {
	// Bind binds the ID to a local address. Port 0 means any free port. The errors are
	// the same as for ID.Bind.
	Bind(addr netip.AddrPort) error
	// Listen starts to listen. The backlog is at least 1.
	Listen(backlog int) error
	// ResolveAddr starts to look for the device for dst. The src may be the zero value.
	// The result is the event AddrResolved or AddrError.
	ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error
	// ResolveRoute starts to look for the route. The result is the event RouteResolved
	// or RouteError.
	ResolveRoute(timeout time.Duration) error

	// CreateQP creates the queue pair of this ID: an RC queue pair in state INIT, or a
	// UD queue pair in state RTS.
	CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error)

	// Connect sends a connection request, or in the UDP port space a lookup. The param
	// is never nil.
	Connect(param *MessageParam) error
	// Accept accepts a request. The param is never nil.
	Accept(param *MessageParam) error
	// Reject refuses a request. On an active ID without a QP, it refuses the peer's
	// response. The reason is one of these:
	//
	//   - RejectConsumer. In the UDP port space SIDRReject is sent.
	//   - RejectNoResources, without private data. In the UDP port space SIDRNoQP is
	//     sent. A transport that can not send RejectNoResources or SIDRNoQP sends
	//     RejectConsumer or SIDRReject instead.
	Reject(reason RejectReason, privateData []byte) error
	// Establish confirms a connection, on an active ID without a QP.
	Establish() error
	// Notify is called with AsyncCommEst if a message has arrived before the peer's
	// confirmation. The event Established follows, and the confirmation is ignored. If
	// Established is already waiting in the channel, the error matches verbs.ErrState.
	Notify(event verbs.AsyncEventType) error
	// Disconnect moves the QP, if there is one, to the error state. On an established
	// connection it sends a disconnect request with the private data. If the peer has
	// sent a disconnect request, Disconnect answers it. In all other cases it sends
	// nothing and returns nil. Without Caps.DisconnectData, the private data is empty.
	Disconnect(privateData []byte) error
	// InitQPAttr returns the attributes and the mask with which a program moves its own
	// queue pair to the given state.
	InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error)

	// Migrate moves the ID and its waiting events to another channel of the transport.
	Migrate(to TransportChannel) error
	// SetOption sets one option. The caller has checked the value.
	SetOption(option Option, value int) error

	// Device returns the device to which the ID is bound, or nil. Port returns the
	// number of the device's port.
	Device() verbs.Device
	Port() uint8
	// LocalAddr and RemoteAddr return the zero value while the address is not known.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Destroy ends the ID. The caller has closed the QP before. Destroy cancels a
	// pending operation, refuses an unanswered request, and disconnects. Events that
	// Next has not returned are dropped. Destroy never blocks.
	Destroy() error
}

// A CredentialsReader is a TransportID that knows the peer's credentials.
type CredentialsReader interface {
	// Credentials implements ID.Credentials. It returns false if the process is not
	// known.
	Credentials() (Credentials, bool)
}

// Option is an option for TransportID.SetOption. Programs call ID.SetTOS and the like
// instead. Source: rdma_set_option(3).
type Option uint8

// Options of an ID, with the allowed values.
const (
	OptionTOS        Option = iota // type of service, 0..255
	OptionReuseAddr                // 0 or 1; 1 means to share the port with other IDs that set it
	OptionAFOnly                   // 0 or 1; 1 means to accept only IPv6 requests on an IPv6 wildcard
	OptionAckTimeout               // code for verbs.AckTimeout, 0..31; 0 means no timeout
	// OptionMinRNRTimer is a code for verbs.RNRDelay, 0..31. It is not in
	// rdma_set_option(3).
	OptionMinRNRTimer
)

// DefaultMinRNRTimer is the code of the default minimum RNR timer, 0.64 ms. The default
// in rdma_accept(3) of 2014 is code 0, 655 ms, which is too slow.
const DefaultMinRNRTimer = 12

func (o Option) String() string {
	names := [...]string{"TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT", "MIN_RNR_TIMER"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("option", uint64(o))
}
