package cm

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// An EventChannel is a queue of the events of its IDs. See the package for who
// may call. Source: rdma_create_event_channel(3).
//
// Locks are taken in this order: EventChannel.fetch, ID.mu, EventChannel.mu.
// All of them may be held while the transport is called, for it never blocks
// and never calls back.
type EventChannel struct {
	transport Transport
	t         TransportChannel

	// fetch is held while an event is on its way from the transport to its ID.
	fetch sync.Mutex
	raw   TransportEvent // scratch of Next

	// mu guards what follows.
	mu     sync.Mutex
	ids    map[TransportID]*ID
	free   []*Event // acknowledged, to be used again
	closed bool
}

// OpenChannel opens an event channel of t.
func OpenChannel(t Transport) (*EventChannel, error) {
	if t == nil {
		return nil, verbs.Wrap("cm open channel", invalid("transport", 0, "missing"))
	}
	tc, err := t.OpenChannel()
	if err != nil {
		return nil, verbs.Wrap("cm open channel", err)
	}
	return &EventChannel{transport: t, t: tc, ids: make(map[TransportID]*ID)}, nil
}

// FD is a descriptor to wait on for input, level-triggered: readable when Next
// is due, although there may then be no event. It belongs to the channel, and
// ends with it.
func (c *EventChannel) FD() int { return c.t.FD() }

// NewID makes an ID whose events come here. After Close it returns ErrClosed.
// Source: rdma_create_id(3).
func (c *EventChannel) NewID(ps PortSpace) (*ID, error) {
	id, err := c.newID(ps)
	return id, verbs.Wrap("cm create ID", err)
}

func (c *EventChannel) newID(ps PortSpace) (*ID, error) {
	if err := checkPortSpace(ps); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, verbs.ErrClosed
	}
	t, err := c.t.NewID(ps)
	if err != nil {
		return nil, err
	}
	id := &ID{ps: ps, t: t, channel: c}
	c.ids[t] = id
	return id, nil
}

// Close closes the channel, or returns ErrBusy while it has IDs; an event that
// was not acknowledged keeps its ID. It is idempotent.
// Source: rdma_destroy_event_channel(3).
func (c *EventChannel) Close() error {
	c.fetch.Lock()
	defer c.fetch.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if len(c.ids) > 0 {
		return verbs.Wrap("cm close channel", verbs.ErrBusy)
	}
	c.closed = true
	return verbs.Wrap("cm close channel", c.t.Close())
}

func (c *EventChannel) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// find returns the ID that t stands for, or nil when it was closed.
func (c *EventChannel) find(t TransportID) *ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[t]
}

// adopt makes events of id find it here.
func (c *EventChannel) adopt(id *ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	c.ids[id.t] = id
	return nil
}

// forget undoes adopt.
func (c *EventChannel) forget(id *ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ids, id.t)
}
