package cm

import (
	"context"
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
