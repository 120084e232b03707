//go:build linux

package soft

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/asyncq"
	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An asyncQueue stores the asynchronous events of a device. Any goroutine may call its
// methods.
type asyncQueue struct {
	fd int // eventfd, readable while the queue has events

	mu     sync.Mutex
	events asyncq.Queue
	closed bool
}

func newAsyncQueue() (*asyncQueue, error) {
	fd, err := eventfd.New()
	if err != nil {
		return nil, err
	}
	return &asyncQueue{fd: fd}, nil
}

func (a *asyncQueue) push(ev verbs.AsyncEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if a.events.Len() == 0 {
		eventfd.Signal(a.fd) // Otherwise fd is readable already: see next.
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
		eventfd.Drain(a.fd)
		return false, nil
	}
	if a.events.Len() == 0 {
		eventfd.Drain(a.fd)
	}
	return true, nil
}

func (a *asyncQueue) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.closed = true
		_ = unix.Close(a.fd)
	}
}
