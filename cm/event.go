package cm

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// EventType is the type of an event.
type EventType uint8

// Event types, numbered as enum rdma_cm_event_type. Source: rdma_get_cm_event(3).
const (
	AddrResolved    EventType = 0  // ResolveAddr has succeeded
	AddrError       EventType = 1  // ResolveAddr has failed
	RouteResolved   EventType = 2  // ResolveRoute has succeeded
	RouteError      EventType = 3  // ResolveRoute has failed
	ConnectRequest  EventType = 4  // on the passive side: a peer requests a connection or a lookup
	ConnectResponse EventType = 5  // on the active side, if the ID has no QP: the peer has accepted
	ConnectError    EventType = 6  // the connection could not be established
	Unreachable     EventType = 7  // the peer does not answer, or has refused a lookup
	Rejected        EventType = 8  // the peer has refused the connection
	Established     EventType = 9  // the connection is established, or the lookup answered
	Disconnected    EventType = 10 // the peer has disconnected, or has answered Disconnect
	DeviceRemoval   EventType = 11 // the device of the ID was removed
	AddrChange      EventType = 14 // an address of the ID has changed; see ID.Serves
	TimewaitExit    EventType = 15 // no late packet of the connection can arrive any more: the QP may be used again
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

// An Event reports a change of an ID. All fields stay valid after Ack and after
// ID.Close. The caller may copy the event. Source: rdma_get_cm_event(3).
type Event struct {
	Type EventType // what has happened
	// ID is the ID to which the event belongs. For ConnectRequest it is the new ID, on
	// which the caller calls Accept or Reject.
	ID *ID
	// Listener is the listening ID for ConnectRequest, and nil for other events.
	Listener *ID

	// Status is the number that rdma_cm would report: 0, a negated errno, a
	// RejectReason, or the SIDRStatus of a refused lookup.
	Status int
	// Err is nil for success. For a failure it is a *RejectError, an *UnreachableError, a
	// *StatusError, or another cause. For Disconnected it is verbs.ErrPeerGone if the
	// peer's process ended, and ErrStale if the peer does not have the connection any
	// more.
	Err error

	// Param has the parameters that the peer has sent: see MessageParam. In the TCP port
	// space Param is set for ConnectRequest and ConnectResponse, and on the active side
	// for Established. In all other events only Param.PrivateData may be set.
	// Param.PrivateData is always a copy.
	Param MessageParam
	// UD is the destination for datagrams. It is set for Established in the UDP port
	// space.
	UD UDParam

	channel *EventChannel // channel that has returned the event; nil in the zero Event
	serial  uint64        // number of the event on the channel, from 1; never used twice
}

// UDParam is the result of a datagram lookup: the peer's address, queue pair number and
// Q_Key.
type UDParam struct {
	AH   verbs.AHAttr // address of the peer
	QPN  uint32       // queue pair number of the peer
	QKey uint32       // Q_Key that datagrams to the peer must carry
}

// Ack acknowledges the event. An ID with unacknowledged events can not be closed or
// migrated. ConnectRequest counts for the listener, not for the new ID. A second Ack,
// also of a copy, returns an error that matches verbs.ErrState. Ack of the zero Event
// returns the same error. Any goroutine may call Ack. Source: rdma_ack_cm_event(3).
func (e *Event) Ack() error {
	if e.channel == nil {
		return operr.Wrap("cm ack event", verbs.ErrState)
	}
	owner := e.channel.takeUnacked(e.serial)
	if owner == nil {
		return operr.Wrap("cm ack event", verbs.ErrState)
	}
	owner.acked()
	return nil
}

// fill sets the fields from the transport's event. oldState is the state of the ID
// before the event.
func (e *Event) fill(raw *TransportEvent, ps PortSpace, oldState State) {
	e.Type, e.Status, e.Err = raw.Type, raw.Status, cause(raw, ps)
	if ps == TCP && hasParam(raw.Type, oldState) {
		e.Param = raw.Param
	}
	if ps == UDP && raw.Type == Established {
		e.UD = raw.UD
	}
	e.Param.PrivateData = slices.Clone(raw.PrivateData)
}

// hasParam reports whether the message of an event has connection parameters, as a
// request and its answer do. oldState is the ID's state before the event.
func hasParam(t EventType, oldState State) bool {
	return t == ConnectRequest || t == ConnectResponse || t == Established && oldState == StateConnecting
}
