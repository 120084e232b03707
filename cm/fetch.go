package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// Next takes the oldest event off the channel, or returns nil, nil when there
// is none. It never blocks. Fetching is part of the work: it moves the queue
// pair of a connecting ID through its states and confirms the connection to the
// peer, so a channel that is not drained holds up connections. After Close it
// returns ErrClosed. Source: rdma_get_cm_event(3).
func (c *EventChannel) Next() (*Event, error) {
	c.fetch.Lock()
	defer c.fetch.Unlock()
	if c.isClosed() {
		return nil, verbs.Wrap("cm next event", verbs.ErrClosed)
	}
	for {
		c.raw = TransportEvent{}
		ok, err := c.t.Next(&c.raw)
		if err != nil || !ok {
			return nil, verbs.Wrap("cm next event", err)
		}
		if e := c.deliver(&c.raw); e != nil {
			return e, nil
		}
	}
}

// deliver brings an event to its ID, and makes of it what the caller sees; nil
// when it came too late for the ID, or does not fit its state.
func (c *EventChannel) deliver(raw *TransportEvent) *Event {
	if raw.Type == ConnectRequest {
		return c.deliverRequest(raw)
	}
	id := c.find(raw.ID)
	if id == nil {
		return nil
	}
	before, ok := id.happen(raw.Type)
	if !ok {
		return nil
	}
	e := c.newEvent()
	e.ID, e.owner = id, id
	e.fill(raw, id.ps, before)
	return e
}

// deliverRequest makes the new ID that a request arrives on. When the listener
// has gone meanwhile, the request is refused.
func (c *EventChannel) deliverRequest(raw *TransportEvent) *Event {
	if raw.ID == nil {
		return nil
	}
	listener := c.find(raw.Listener)
	if listener == nil {
		return c.refuse(raw)
	}
	if _, ok := listener.happen(ConnectRequest); !ok {
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

// refuse destroys a new ID that nobody will see.
func (c *EventChannel) refuse(raw *TransportEvent) *Event {
	// There is nobody to tell that this failed, and nothing more to do.
	_ = raw.ID.Destroy()
	return nil
}

// newEvent takes an event from the free list, or makes one.
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

// recycle takes an event back and returns whose it was; nil when it was given
// back before.
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
