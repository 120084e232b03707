//go:build linux

package soft

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxAsync bounds the events that nobody fetches; the oldest give way.
const maxAsync = 1024

// asyncQueue holds asynchronous events of a device. Any goroutine may call.
type asyncQueue struct {
	fd int

	mu     sync.Mutex
	events []verbs.AsyncEvent
	closed bool
}

func newAsyncQueue() (*asyncQueue, error) {
	fd, err := newEventfd()
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
	if len(a.events) == maxAsync {
		a.events = append(a.events[:0], a.events[1:]...)
	}
	a.events = append(a.events, ev)
	ringEventfd(a.fd)
}

func (a *asyncQueue) next(ev *verbs.AsyncEvent) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false, verbs.Wrap("next asynchronous event", verbs.ErrClosed)
	}
	if len(a.events) == 0 {
		drainEventfd(a.fd)
		return false, nil
	}
	*ev = a.events[0]
	a.events = append(a.events[:0], a.events[1:]...)
	if len(a.events) == 0 {
		drainEventfd(a.fd)
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
