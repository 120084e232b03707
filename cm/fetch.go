package cm

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
		state: StateRequested, request: raw.Param, context: listener.Context(),
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
