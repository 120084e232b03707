package cm

import (
	"github.com/rdmaloop/rdmaloop/verbs"
)

// EventType names what happened.
type EventType uint8

// Events, numbered as enum rdma_cm_event_type. Source: rdma_get_cm_event(3).
const (
	AddrResolved    EventType = 0
	AddrError       EventType = 1
	RouteResolved   EventType = 2
	RouteError      EventType = 3
	ConnectRequest  EventType = 4
	ConnectResponse EventType = 5
	ConnectError    EventType = 6
	Unreachable     EventType = 7
	Rejected        EventType = 8
	Established     EventType = 9
	Disconnected    EventType = 10
	DeviceRemoval   EventType = 11
	AddrChange      EventType = 14
	TimewaitExit    EventType = 15
)

func (t EventType) String() string {
	switch t {
	case AddrResolved:
		return "address resolved"
	case AddrError:
		return "address error"
	case RouteResolved:
		return "route resolved"
	case RouteError:
		return "route error"
	case ConnectRequest:
		return "connect request"
	case ConnectResponse:
		return "connect response"
	case ConnectError:
		return "connect error"
	case Unreachable:
		return "unreachable"
	case Rejected:
		return "rejected"
	case Established:
		return "established"
	case Disconnected:
		return "disconnected"
	case DeviceRemoval:
		return "device removal"
	case AddrChange:
		return "address change"
	case TimewaitExit:
		return "timewait exit"
	}
	return unknown("event", uint64(t))
}

// maxPrivateData bounds the private data of any message (RDMA_MAX_PRIVATE_DATA).
const maxPrivateData = 256

// An Event is something that happened to an ID. It belongs to the caller of
// EventChannel.Next until Ack, which empties it: what is to be kept longer is
// copied before.
type Event struct {
	Type EventType
	// ID is whom it happened to; for ConnectRequest the new ID, on which to
	// call Accept or Reject.
	ID *ID
	// Listener is, for ConnectRequest, the ID that listens; else nil.
	Listener *ID

	// Status is the number that rdma_cm would give: 0, a negated errno, a
	// RejectReason, or for a UD refusal the status of the reply.
	Status int
	// Err is nil for events that report success, and the cause of failure for the others:
	// a *RejectError, *UnreachableError, the transport's cause, or a *StatusError. It
	// stays valid after Ack. For Disconnected it is verbs.ErrPeerGone where the transport
	// knows that the peer's process ended without a disconnect request, and ErrStale
	// where the peer has forgotten the connection.
	Err error

	// Param is what the peer sent, from this side's point of view, for
	// ConnectRequest, ConnectResponse and Established of an active RC ID;
	// QPNum and SRQ in it are the peer's. Its PrivateData is a copy, valid until
	// Ack. In other events only PrivateData may be set.
	Param ConnParam
	// UD is where to send datagrams, for Established in the UDP port space.
	UD UDParam

	channel *EventChannel // whose event it is, for all its lives
	owner   *ID           // whom Ack is counted for; nil after Ack
	storage [maxPrivateData]byte
}

// UDParam is the peer of a datagram lookup.
type UDParam struct {
	AH   verbs.AHAttr
	QPN  uint32
	QKey uint32
}

// Ack gives the event back; the channel will use it again. An ID can not be
// closed or migrated before its events are acknowledged, a ConnectRequest being
// one of the listener. A second Ack returns an error that matches
// verbs.ErrState, unless the event has come back from Next meanwhile. Any
// goroutine may call. Source: rdma_ack_cm_event(3).
func (e *Event) Ack() error {
	if e.channel == nil {
		return verbs.Wrap("cm ack event", verbs.ErrState)
	}
	owner := e.channel.recycle(e)
	if owner == nil {
		return verbs.Wrap("cm ack event", verbs.ErrState)
	}
	owner.acked()
	return nil
}

// fill takes over what the transport reports of an ID that was in state before.
func (e *Event) fill(raw *TransportEvent, ps PortSpace, before State) {
	e.Type, e.Status, e.Err = raw.Type, raw.Status, cause(raw, ps)
	if ps == TCP && hasParam(raw.Type, before) {
		e.Param = raw.Param
	}
	if ps == UDP && raw.Type == Established {
		e.UD = raw.UD
	}
	n := copy(e.storage[:], raw.PrivateData)
	e.Param.PrivateData = e.storage[:n:n]
}

// hasParam tells whether the message behind an event carries parameters: a
// request does, and the answer to one, but not the confirmation of the answer.
func hasParam(t EventType, before State) bool {
	return t == ConnectRequest || t == ConnectResponse || t == Established && before == StateConnecting
}
