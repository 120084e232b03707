package cm

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
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

// Wait waits for an event and returns it. It is for programs without an event loop. The
// goroutine and its thread sleep in poll(2). The caller acknowledges the event with
// Event.Ack. If several goroutines wait, one event wakes one of them.
//
// With verbs.ProgressManual, the data of a CQ moves only while its owner polls the CQ. So
// it does not move while the owner waits in Wait.
//
// The errors:
//
//   - ctx.Err(), when ctx is done. Events stay in the channel.
//   - verbs.ErrClosed, when the channel is closed.
//   - the error of eventfd(2).
//   - *verbs.FeatureError, on systems other than Linux.
func (c *EventChannel) Wait(ctx context.Context) (Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, operr.Wrap("cm wait for event", err)
		}
		ev, ok, err := c.Next()
		if ok || err != nil {
			return ev, err
		}
		if err := c.sleep(ctx); err != nil {
			return Event{}, operr.Wrap("cm wait for event", err)
		}
	}
}

// Expect waits for the next event, as Wait does, and acknowledges it. The event must
// have the type want. Expect takes events of all IDs of the channel, so each ID should
// have its own channel; see ID.Migrate. Source: rdma_get_request(3), rdma_create_id(3).
//
// Some events change nothing, and Expect skips them if they are not wanted:
// TimewaitExit, AddrChange, and Unreachable on an established ID.
//
// Any other event is an error. Expect then returns the event and Event.Err. If Event.Err
// is nil, the error matches verbs.ErrState. If the event is a ConnectRequest, the caller
// must answer it or close its ID.
func (c *EventChannel) Expect(ctx context.Context, want EventType) (Event, error) {
	for {
		ev, err := c.Wait(ctx)
		if err != nil {
			return Event{}, err
		}
		// The check comes before Ack, because it needs the ID. After Ack, another
		// goroutine may close the ID.
		skip := ev.endsNothing()
		if err := ev.Ack(); err != nil {
			return ev, err
		}
		switch {
		case ev.Type == want:
			return ev, nil
		case skip:
		case ev.Err != nil:
			return ev, operr.Wrap("cm expect "+want.String(), ev.Err)
		default:
			return ev, operr.Wrap("cm expect "+want.String(), fmt.Errorf("%w: the event is %v", verbs.ErrState, ev.Type))
		}
	}
}

// endsNothing reports whether the ID continues as before. Unreachable ends an attempt to
// connect, but not an established connection.
func (e *Event) endsNothing() bool {
	switch e.Type {
	case TimewaitExit, AddrChange:
		return true
	case Unreachable:
		return e.ID.State() != StateFailed
	}
	return false
}

// sleep blocks until the descriptor is readable, ctx is done, or the channel is closed.
func (c *EventChannel) sleep(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return verbs.ErrClosed
	}
	c.sleeping.Add(1)
	c.mu.Unlock()
	defer c.sleeping.Done()
	_, err := fdevent.Readable(c.FD(), -1, ctx, c.closeCtx)
	return operr.Unsupported("waiting for an event", err)
}

// Migrate moves the ID to another channel of the same transport. Events that were not
// fetched move too. If the channel belongs to another transport, the error is
// verbs.ErrForeign. While the ID has unacknowledged events, the error is verbs.ErrBusy.
// Source: rdma_migrate_id(3), which waits instead.
func (id *ID) Migrate(to *EventChannel) error {
	oldChannel := id.Channel()
	// Next must not deliver an event of the ID meanwhile.
	oldChannel.fetch.Lock()
	defer oldChannel.fetch.Unlock()
	return id.do(callMigrate, func() error {
		switch {
		case to == nil:
			return missing("channel")
		// If the ID has another channel now, another Migrate was faster.
		case id.channel != oldChannel:
			return fmt.Errorf("%w: another call moves the ID", verbs.ErrBusy)
		case id.unacked > 0:
			return fmt.Errorf("%w: %d events of the ID are not acknowledged", verbs.ErrBusy, id.unacked)
		case to == oldChannel:
			return nil
		case to.transport != oldChannel.transport:
			return fmt.Errorf("%w: the channel is of another transport", verbs.ErrForeign)
		}
		// The new channel must know the ID before events arrive there.
		if err := to.register(id); err != nil {
			return err
		}
		if err := id.t.Migrate(to.t); err != nil {
			to.unregister(id)
			return err
		}
		oldChannel.unregister(id)
		id.channel = to
		return nil
	})
}
