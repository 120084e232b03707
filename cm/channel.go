package cm

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An EventChannel is a queue of events. The oldest event comes first. Each ID sends its
// events to one channel. The package comment says which goroutines may call the methods.
// Source: rdma_create_event_channel(3).
type EventChannel struct {
	// Lock order: EventChannel.fetch, ID.mu, EventChannel.mu. The transport may be
	// called while all three are held.

	transport Transport
	t         TransportChannel

	// fetch is held while an event is taken from the transport and delivered to its ID.
	fetch sync.Mutex
	// Next stores the transport's event here, to avoid an allocation.
	scratch TransportEvent

	// Close cancels this context, which wakes all goroutines that sleep in Wait.
	closeCtx    context.Context
	endCloseCtx context.CancelFunc
	// sleeping counts the goroutines that sleep in Wait. Close waits for them before it
	// closes the descriptor.
	sleeping sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	ids    map[TransportID]*ID
	closed bool
	// unacked has the unacknowledged events by Event.serial. The value is the ID that
	// the event keeps open.
	unacked    map[uint64]*ID
	lastSerial uint64
}

// OpenChannel opens an event channel of t. The caller closes the channel before it
// closes the provider. If t is nil, the error is a *verbs.ParamError. If the provider is
// closed, the error matches verbs.ErrClosed. Source: rdma_create_event_channel(3).
func OpenChannel(t Transport) (*EventChannel, error) {
	if t == nil {
		return nil, operr.Wrap("cm open channel", missing("transport"))
	}
	tc, err := t.OpenChannel()
	if err != nil {
		return nil, operr.Wrap("cm open channel", err)
	}
	c := &EventChannel{transport: t, t: tc, ids: make(map[TransportID]*ID), unacked: make(map[uint64]*ID)}
	c.closeCtx, c.endCloseCtx = context.WithCancel(context.Background())
	return c, nil
}

// FD returns the descriptor of the channel, for level-triggered polling. While it is
// readable, the caller calls Next. Sometimes Next finds no event. The descriptor is
// valid until Close. Callers never read, write or close it. Any goroutine may call FD.
func (c *EventChannel) FD() int { return c.t.FD() }

// NewID creates an ID whose events arrive on this channel. The caller ends it with
// ID.Close. If the port space is unknown, the error is a *verbs.ParamError. Source:
// rdma_create_id(3).
func (c *EventChannel) NewID(ps PortSpace) (*ID, error) {
	id, err := c.newID(ps)
	return id, operr.Wrap("cm create ID", err)
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

// Close closes the channel. Calls of Wait and Expect that are running return
// verbs.ErrClosed. A second Close does nothing. Source: rdma_destroy_event_channel(3).
//
// While the channel has IDs or unacknowledged events, Close returns verbs.ErrBusy and
// does nothing.
func (c *EventChannel) Close() error {
	c.fetch.Lock()
	defer c.fetch.Unlock()
	if marked, err := c.markClosed(); !marked {
		return operr.Wrap("cm close channel", err)
	}
	c.endCloseCtx()
	c.sleeping.Wait()
	return operr.Wrap("cm close channel", c.t.Close())
}

// markClosed sets closed. If closed was set before, it returns false. If the channel
// still has IDs, the error is verbs.ErrBusy.
func (c *EventChannel) markClosed() (marked bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, nil
	}
	if len(c.ids) > 0 {
		return false, fmt.Errorf("%w: the channel has %d IDs", verbs.ErrBusy, len(c.ids))
	}
	c.closed = true
	return true, nil
}

func (c *EventChannel) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// find returns the ID that uses the given TransportID, or nil if the ID was closed.
func (c *EventChannel) find(t TransportID) *ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[t]
}

// register adds id to the IDs of this channel.
func (c *EventChannel) register(id *ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	c.ids[id.t] = id
	return nil
}

func (c *EventChannel) unregister(id *ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ids, id.t)
}
