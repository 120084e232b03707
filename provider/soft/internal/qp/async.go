//go:build linux

package qp

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/asyncq"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An asyncQueue stores the asynchronous events of a device. Any goroutine may call its
// methods.
type asyncQueue struct {
	event *fdevent.Event // readable while the queue has events

	mu     sync.Mutex
	events asyncq.Queue
	closed bool
}

func newAsyncQueue() (*asyncQueue, error) {
	event, err := fdevent.NewEvent()
	if err != nil {
		return nil, err
	}
	return &asyncQueue{event: event}, nil
}

func (a *asyncQueue) push(ev verbs.AsyncEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if a.events.Len() == 0 {
		a.event.Signal() // Otherwise the event is readable already: see next.
	}
	a.events.Push(ev)
}

// forget drops the queued events about a QP, CQ or SRQ that was closed.
func (a *asyncQueue) forget(object any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events.Forget(object)
}

// next moves the oldest event to ev. It returns false if the queue is empty.
func (a *asyncQueue) next(ev *verbs.AsyncEvent) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false, operr.Wrap("next asynchronous event", verbs.ErrClosed)
	}
	var ok bool
	if *ev, ok = a.events.Pop(); !ok {
		a.event.Drain()
		return false, nil
	}
	if a.events.Len() == 0 {
		a.event.Drain()
	}
	return true, nil
}

func (a *asyncQueue) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.closed = true
		_ = a.event.Close()
	}
}
