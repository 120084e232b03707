package cm

import (
	"context"
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/fdwait"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wait waits for an event and returns it. Wait is Next for programs without an event
// loop: while there is no event, the goroutine and its thread sleep in poll(2). The
// caller acknowledges the event with Event.Ack. If several goroutines wait on a channel,
// only one of them gets an event. With verbs.ProgressManual, no data moves while the
// owner of the CQ is in Wait.
//
// When ctx is done, Wait returns an error that matches ctx.Err(), even if the channel
// has events; the events remain in the channel. When the channel is closed, the error
// matches verbs.ErrClosed. cq.Group.Wait is the counterpart for completions. Wait needs
// an eventfd while it sleeps; if the process has no descriptor left, Wait returns the
// error of eventfd(2). On systems other than Linux Wait returns a *verbs.FeatureError.
// Source: rdma_get_cm_event(3) with a channel that blocks.
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

// Expect waits for the next event, as Wait does, and acknowledges it. If the event has
// the expected type, Expect returns the event. Otherwise Expect returns the event and an
// error: Event.Err or, if that is nil, an error that names both types and matches
// verbs.ErrState. If the unexpected event is a ConnectRequest, the caller must answer or
// close Event.ID.
//
// Expect skips events after which the ID continues as before, unless their type is the
// expected one: TimewaitExit, AddrChange, and Unreachable for an established ID.
//
// With Expect, a program calls ResolveAddr, ResolveRoute, Connect and Accept one after
// the other, as a program in C does with an ID without a channel. Expect with
// ConnectRequest corresponds to rdma_get_request(3). Such a program should give each ID a
// channel of its own, because Expect takes the events of all IDs of the channel. The new
// ID of a request starts on the channel of its listener; ID.Migrate moves it to another
// channel.
func (c *EventChannel) Expect(ctx context.Context, want EventType) (Event, error) {
	for {
		ev, err := c.Wait(ctx)
		if err != nil {
			return Event{}, err
		}
		// Whether to skip is decided before Ack, because after Ack another goroutine may
		// close the ID.
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

// endsNothing reports whether an event leaves the ID in its state, so that Expect may
// skip the event. Unreachable is such an event for an established ID. In other states
// Unreachable ends the attempt to connect and leads to StateFailed.
func (e *Event) endsNothing() bool {
	switch e.Type {
	case TimewaitExit, AddrChange:
		return true
	case Unreachable:
		return e.ID.State() != StateFailed
	}
	return false
}

// sleep blocks until the descriptor of the channel is readable, ctx is done, or another
// goroutine calls Close.
func (c *EventChannel) sleep(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return verbs.ErrClosed
	}
	c.sleeping.Add(1)
	c.mu.Unlock()
	defer c.sleeping.Done()
	_, err := fdwait.Readable(c.FD(), -1, ctx, c.closeCtx)
	return err
}
