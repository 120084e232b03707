package poller

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// A waker signals an event, from any goroutine. The first goroutine sets wakePending and
// signals. As long as wakePending is set, other goroutines do nothing.
type waker struct {
	state atomic.Uint32
	event *fdevent.Event
}

const (
	wakePending uint32 = 1 << iota
	wakeClosed
)

// wake signals the event, unless a wake is pending or the waker is closed.
func (w *waker) wake() {
	if w.state.Or(wakePending) == 0 {
		w.event.Signal()
	}
}

// consume drains the event first and clears wakePending last. In the other order, it
// could drain the signal of a new wake.
func (w *waker) consume() {
	w.event.Drain()
	w.state.And(^wakePending)
}

// close waits for a pending signal before it closes the event. Otherwise the signal could
// reach another file that gets the same descriptor number.
func (w *waker) close() error {
	if w.state.Or(wakeClosed)&wakePending != 0 {
		w.event.Await()
	}
	return w.event.Close()
}
