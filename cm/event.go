package cm

import (
	"fmt"
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
	ConnectRequest  EventType = 4  // passive side: a peer sends a request or a lookup
	ConnectResponse EventType = 5  // active side, ID without a QP: the peer has accepted
	ConnectError    EventType = 6  // the connection could not be established
	Unreachable     EventType = 7  // the peer does not answer, or has refused a lookup
	Rejected        EventType = 8  // the peer has refused the connection
	Established     EventType = 9  // the connection is established, or the lookup is answered
	Disconnected    EventType = 10 // the peer has disconnected, or has answered Disconnect
	DeviceRemoval   EventType = 11 // the device of the ID was removed
	AddrChange      EventType = 14 // an address of the ID has changed; see ID.Serves
	TimewaitExit    EventType = 15 // the QP may be used again, because no late packets can arrive any more
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

// An Event reports that something has happened to an ID. The caller may copy it. All
// fields stay valid after Ack and after ID.Close. Source: rdma_get_cm_event(3).
type Event struct {
	Type EventType // what has happened
	// ID is the ID to which the event belongs. For ConnectRequest it is a new ID, on
	// which the caller calls Accept or Reject.
	ID *ID
	// Listener is the listening ID for ConnectRequest. For other events it is nil.
	Listener *ID

	// Status is the number that rdma_cm would report: the RejectReason for Rejected, the
	// SIDRStatus for Unreachable after a refused lookup, and for all others 0 or a negative
	// number, mostly a negated errno.
	Status int
	// Err is nil unless something failed. It is a *RejectError for Rejected, and for
	// Unreachable if the peer has refused a lookup. It matches ErrTimedOut if the peer does
	// not answer. For Disconnected it is nil in the normal case. It is verbs.ErrPeerGone if
	// the peer's process has ended, and ErrStale if the peer does not know the connection any
	// more.
	Err error

	// Param has the parameters that the peer has sent; see MessageParam. Only these
	// events of the TCP port space have them: ConnectRequest, ConnectResponse, and
	// Established on the active side. Every event can have Param.PrivateData, which is a
	// copy: for Disconnected that of the peer's disconnect request (ID.Disconnect).
	Param MessageParam
	// UD tells where to send datagrams. It is set for Established in the UDP port space.
	UD UDParam

	channel *EventChannel // channel of the event; nil in the zero Event
	serial  uint64        // number of the event on its channel, from 1; never used twice
}

// UDParam is the result of a datagram lookup.
type UDParam struct {
	AH   verbs.AHAttr // address of the peer
	QPN  uint32       // queue pair number of the peer
	QKey uint32       // Q_Key that datagrams to the peer must carry
}

// Ack acknowledges the event. An ID with unacknowledged events can not be closed or
// moved to another channel. A ConnectRequest counts as an event of the listener, not of
// the new ID. Any goroutine may call Ack. Source: rdma_ack_cm_event(3).
//
// An event can be acknowledged only once, even if it was copied. A second Ack returns an
// error that matches verbs.ErrState. So does Ack of the zero Event.
func (e *Event) Ack() error {
	if e.channel == nil {
		return operr.Wrap("cm ack event", errNotUnacked)
	}
	owner := e.channel.takeUnacked(e.serial)
	if owner == nil {
		return operr.Wrap("cm ack event", errNotUnacked)
	}
	owner.acked()
	return nil
}

var errNotUnacked = fmt.Errorf("%w: the event was acknowledged before, or is no event of a channel", verbs.ErrState)

// fill sets the fields from the transport's event. The ID was in oldState before.
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

// hasParam reports whether an event has connection parameters. Only the events of a
// request and of its answer have them. The parameter oldState is the state of the ID
// before the event.
func hasParam(t EventType, oldState State) bool {
	return t == ConnectRequest || t == ConnectResponse || t == Established && oldState == StateConnecting
}

// Next takes the oldest event from the channel. If there is none, ok is false. Next
// never blocks. The caller acknowledges the event with Event.Ack. Source:
// rdma_get_cm_event(3).
//
// Next does other work too: it moves queue pairs through their states and sends
// confirmations. Next may do this work only when it has returned all waiting events. So
// call Next until there are no more events. After an error the channel is unusable.
func (c *EventChannel) Next() (ev Event, ok bool, err error) {
	c.fetch.Lock()
	defer c.fetch.Unlock()
	if c.isClosed() {
		return Event{}, false, operr.Wrap("cm next event", verbs.ErrClosed)
	}
	for !ok {
		c.scratch = TransportEvent{}
		if more, err := c.t.Next(&c.scratch); err != nil || !more {
			return Event{}, false, operr.Wrap("cm next event", err)
		}
		ok = c.deliver(&c.scratch, &ev)
	}
	return ev, true, nil
}

// deliver gives an event of the transport to its ID, and stores the Event in e. It
// returns false if there is no such ID, or if the ID's state does not allow the event.
func (c *EventChannel) deliver(raw *TransportEvent, e *Event) bool {
	if raw.Type == ConnectRequest {
		return c.deliverRequest(raw, e)
	}
	id := c.find(raw.ID)
	if id == nil {
		return false
	}
	oldState, ok := id.applyEvent(raw.Type)
	if !ok {
		return false
	}
	e.ID = id
	e.channel, e.serial = c, c.addUnacked(id)
	e.fill(raw, id.ps, oldState)
	return true
}

// deliverRequest creates the ID for a connection request, and stores the Event in e. If
// the listener is closed, it refuses the request and returns false.
func (c *EventChannel) deliverRequest(raw *TransportEvent, e *Event) bool {
	if raw.ID == nil {
		return false
	}
	listener := c.find(raw.Listener)
	if listener == nil {
		return c.refuse(raw)
	}
	if _, ok := listener.applyEvent(ConnectRequest); !ok {
		return c.refuse(raw)
	}
	e.Listener = listener
	e.channel, e.serial = c, c.addUnacked(listener)
	e.fill(raw, listener.ps, StateListening)
	e.ID = &ID{
		ps: listener.ps, t: raw.ID, channel: c,
		state: StateRequested, request: raw.Param, userData: listener.UserData(),
	}
	c.mu.Lock()
	c.ids[raw.ID] = e.ID
	c.mu.Unlock()
	return true
}

// refuse refuses a connection request. It returns false.
func (c *EventChannel) refuse(raw *TransportEvent) bool {
	// Nobody waits for the error.
	_ = raw.ID.Destroy()
	return false
}

// addUnacked records an unacknowledged event and returns its serial number. The event
// keeps its owner open.
func (c *EventChannel) addUnacked(owner *ID) (serial uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastSerial++
	c.unacked[c.lastSerial] = owner
	return c.lastSerial
}

// takeUnacked removes an unacknowledged event and returns its owner. If the event was
// acknowledged before, it returns nil.
func (c *EventChannel) takeUnacked(serial uint64) (owner *ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner = c.unacked[serial]
	delete(c.unacked, serial)
	return owner
}

// applyEvent changes the state for an event, and returns the old state. If the old state
// does not allow the event, nothing changes.
func (id *ID) applyEvent(t EventType) (oldState State, ok bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	oldState = id.state
	if id.state, ok = follow(eventRules, t, id.ps, oldState); !ok {
		return oldState, false
	}
	id.unacked++
	if oldState == StateDisconnectPending && (id.state == StateDisconnecting || id.state == StateDisconnected) {
		// The caller called Disconnect before the connection was established. Perhaps
		// that call sent nothing to the peer, so disconnect now.
		_ = id.t.Disconnect(id.disconnectData)
	}
	return oldState, true
}
