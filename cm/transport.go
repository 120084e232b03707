package cm

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Provider is a verbs.Provider whose devices' connections are managed through
// this package. It is what an application opens and hands to the reactor.
type Provider interface {
	verbs.Provider
	Transport
}

// A Transport is the seam that a provider implements for connection events. Its
// callers are EventChannel and ID, which have checked the parameters and the
// order of the calls before; a transport checks only what it alone can know.
// Who may call follows the rule of this package.
type Transport interface {
	// OpenChannel opens an event channel.
	OpenChannel() (TransportChannel, error)
}

// A TransportChannel is a queue of events, first in first out.
type TransportChannel interface {
	// FD is a descriptor to wait on for input, level-triggered: readable when
	// Next is due, although there may then be no event. It belongs to the
	// channel.
	FD() int
	// Next does what work is due and stores the oldest event in ev, or reports
	// false when there is none. It never blocks. The event is the transport's
	// no more once Next returned, except that ev.PrivateData may point into
	// the transport's memory until the next call.
	Next(ev *TransportEvent) (ok bool, err error)
	// NewID makes an ID whose events come here.
	NewID(ps PortSpace) (TransportID, error)
	// Close closes the channel. Its IDs have been destroyed before.
	Close() error
}

// A TransportEvent is one event, as the transport knows it.
type TransportEvent struct {
	Type     EventType
	ID       TransportID // for ConnectRequest the new one
	Listener TransportID // for ConnectRequest, else nil
	Status   int         // as Event.Status
	// Err is the cause of AddrError, RouteError and ConnectError. For Rejected and
	// Unreachable it is the cause, if the transport knows more than the status. For a
	// Disconnected that the peer did not request, it is verbs.ErrPeerGone or ErrStale, if
	// the transport knows which.
	Err error
	// Param is from the receiver's point of view, without private data.
	Param ConnParam
	UD    UDParam
	// PrivateData is what the peer sent; its length is exact where
	// Caps.ExactPrivateData is true.
	PrivateData []byte
	// ByApplication marks a refusal that the peer's application made.
	ByApplication bool
}

// A TransportID is one end of a connection, a listener, or a lookup.
type TransportID interface {
	// Bind binds to a local address; port 0 means any free one. The errors are
	// those of ID.Bind.
	Bind(addr netip.AddrPort) error
	// Listen starts listening; backlog is at least 1.
	Listen(backlog int) error
	// ResolveAddr starts finding the device that leads to dst; src may be the
	// zero value. The result is AddrResolved or AddrError.
	ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error
	// ResolveRoute starts finding the route; RouteResolved or RouteError.
	ResolveRoute(timeout time.Duration) error

	// CreateQP makes a queue pair for this ID in state INIT (RC) or RTS (UD).
	CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error)

	// Connect starts a connection, or a lookup. param is never nil.
	Connect(param *ConnParam) error
	// Accept answers a request; param is never nil.
	Accept(param *ConnParam) error
	// Reject refuses a request, or on an active ID without QP the response. The reason is
	// RejectConsumer, or RejectNoResources without private data. In the UDP port space
	// RejectNoResources is sent as SIDRNoQP. A transport that can not send
	// RejectNoResources sends RejectConsumer without private data.
	Reject(reason RejectReason, privateData []byte) error
	// Establish completes an active connection without QP.
	Establish() error
	// Notify, with AsyncCommEst, completes a passive connection whose peer was
	// heard before its confirmation, which is then ignored. Established follows;
	// if it is on its way already, the error matches verbs.ErrState.
	Notify(event verbs.AsyncEventType) error
	// Disconnect moves the QP, if there is one, to the error state and tells
	// the peer, or answers its wish to disconnect.
	Disconnect() error
	// InitQPAttr returns the attributes and mask that bring a queue pair that
	// is not the ID's to state.
	InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error)

	// Migrate moves the ID and its pending events to another channel of the
	// same transport.
	Migrate(to TransportChannel) error
	// SetOption sets one option; the value fits it.
	SetOption(option Option, value int) error

	// Device is the device the ID is bound to, or nil; Port is its port.
	Device() verbs.Device
	Port() uint8
	// LocalAddr and RemoteAddr are zero as long as they are not known.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// Destroy ends the ID: cancels what is under way, refuses an unanswered
	// request, disconnects. Pending events of the ID vanish. The QP was closed
	// before. It never blocks.
	Destroy() error
}

// A CredentialsReader is a TransportID that knows which process is at the other end.
type CredentialsReader interface {
	// Credentials implements ID.Credentials.
	Credentials() (Credentials, bool)
}

// Option is an option of an ID. Source: rdma_set_option(3).
type Option uint8

// Options.
const (
	OptionTOS        Option = iota // type of service, 0..255
	OptionReuseAddr                // 0 or 1: share the port with others that allow it
	OptionAFOnly                   // 0 or 1: an IPv6 wildcard takes IPv6 only
	OptionAckTimeout               // code c of 4.096 µs * 2^c, 0..31; 0 means none
	// OptionMinRNRTimer is a timer code for verbs.RNRDelay, 0..31. rdma_set_option(3) has
	// no such option.
	OptionMinRNRTimer
)

// DefaultMinRNRTimer is the code of the minimum RNR timer of an ID's queue pair
// unless ID.SetMinRNRTimer has set another: 0.64 ms.
const DefaultMinRNRTimer = 12

func (o Option) String() string {
	names := [...]string{"TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT", "MIN_RNR_TIMER"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("option", uint64(o))
}
