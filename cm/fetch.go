package cm

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Next takes the oldest event from the channel, or returns nil, nil if there is none. It
// never blocks. Next also moves the queue pair of a connecting ID through its states and
// sends the confirmation to the peer, so connections make no progress while the channel
// is not drained. The error is a *verbs.OpError; after Close it matches verbs.ErrClosed.
// Source: rdma_get_cm_event(3).
func (c *EventChannel) Next() (*Event, error) {
	c.fetch.Lock()
	defer c.fetch.Unlock()
	if c.isClosed() {
		return nil, operr.Wrap("cm next event", verbs.ErrClosed)
	}
	for {
		c.scratch = TransportEvent{}
		ok, err := c.t.Next(&c.scratch)
		if err != nil || !ok {
			return nil, operr.Wrap("cm next event", err)
		}
		if e := c.deliver(&c.scratch); e != nil {
			return e, nil
		}
	}
}

// deliver applies an event to its ID and returns the event for the caller. It returns nil
// if the ID is closed or if the event is not possible in the state of the ID.
func (c *EventChannel) deliver(raw *TransportEvent) *Event {
	if raw.Type == ConnectRequest {
		return c.deliverRequest(raw)
	}
	id := c.find(raw.ID)
	if id == nil {
		return nil
	}
	before, ok := id.applyEvent(raw.Type)
	if !ok {
		return nil
	}
	e := c.newEvent()
	e.ID, e.owner = id, id
	e.fill(raw, id.ps, before)
	return e
}

// deliverRequest creates the ID for a connection request. If the listener is closed, it
// refuses the request.
func (c *EventChannel) deliverRequest(raw *TransportEvent) *Event {
	if raw.ID == nil {
		return nil
	}
	listener := c.find(raw.Listener)
	if listener == nil {
		return c.refuse(raw)
	}
	if _, ok := listener.applyEvent(ConnectRequest); !ok {
		return c.refuse(raw)
	}
	e := c.newEvent()
	e.Listener, e.owner = listener, listener
	e.fill(raw, listener.ps, StateListening)
	e.ID = &ID{
		ps: listener.ps, t: raw.ID, channel: c,
		state: StateRequested, request: raw.Param, context: listener.Context(),
	}
	c.mu.Lock()
	c.ids[raw.ID] = e.ID
	c.mu.Unlock()
	return e
}

// refuse destroys the transport's ID of a request that is not delivered.
func (c *EventChannel) refuse(raw *TransportEvent) *Event {
	// There is no caller to report an error to.
	_ = raw.ID.Destroy()
	return nil
}

// newEvent returns an event from the free list, or a new one.
func (c *EventChannel) newEvent() *Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.free) - 1
	if last < 0 {
		return &Event{channel: c}
	}
	e := c.free[last]
	c.free = c.free[:last]
	return e
}

// recycle puts an event on the free list and returns its owner. It returns nil if the
// event is already there.
func (c *EventChannel) recycle(e *Event) *ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner := e.owner
	if owner != nil {
		*e = Event{channel: c}
		c.free = append(c.free, e)
	}
	return owner
}
