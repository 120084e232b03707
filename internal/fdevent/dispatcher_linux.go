package fdevent

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// A Handler handles the events of a descriptor. It must not block. An event can be out
// of date: another handler may have read from the descriptor already.
type Handler interface {
	// OnReady is called with the descriptor and its events, such as unix.EPOLLIN.
	OnReady(fd int, events uint32)
}

// A Dispatcher is a set of descriptors with handlers. Descriptors are named by their
// numbers.
type Dispatcher struct {
	set    Set[Handler]
	tokens map[int]Token
}

// maxReady is the largest number of ready descriptors in one Dispatch. Arbitrary.
const maxReady = 64

// NewDispatcher returns an empty set. The caller closes it.
func NewDispatcher() (*Dispatcher, error) {
	d := &Dispatcher{tokens: make(map[int]Token)}
	if err := d.set.open(maxReady); err != nil {
		return nil, err
	}
	return d, nil
}

// FD returns the epoll descriptor; see Set.FD.
func (d *Dispatcher) FD() int { return d.set.fd }

// Close closes the set, but not the descriptors in it. A second call does nothing.
func (d *Dispatcher) Close() {
	if d != nil && d.tokens != nil {
		_ = d.set.close()
		d.tokens = nil
	}
}

// Add adds the descriptor fd. Dispatch calls h for the given events. The caller must
// remove fd from the set before closing it. The error matches those of epoll_ctl(2), and
// unix.EBADF after Close.
func (d *Dispatcher) Add(fd int, events uint32, h Handler) error {
	t, err := d.set.Add(fd, events, h)
	if err != nil {
		return err
	}
	// If an earlier descriptor with this number was closed without Remove, its events end
	// here.
	d.set.entries.Remove(slots.Handle(d.tokens[fd]))
	d.tokens[fd] = t
	return nil
}

// Attach adds a descriptor whose events only make FD readable.
func (d *Dispatcher) Attach(fd int, events uint32) error { return d.set.Attach(fd, events) }

// Modify replaces the events of a descriptor. EPOLLHUP and EPOLLERR are always reported
// (epoll_ctl(2)).
func (d *Dispatcher) Modify(fd int, events uint32) { _, _ = d.set.Modify(d.tokens[fd], events) }

// SetHandler replaces the handler of a descriptor in the set.
func (d *Dispatcher) SetHandler(fd int, h Handler) {
	if e, ok := d.set.Get(d.tokens[fd]); ok {
		e.Value = h
	}
}

// Handler returns the handler of a descriptor. If the descriptor is not in the set,
// Handler returns nil.
func (d *Dispatcher) Handler(fd int) Handler {
	if e, ok := d.set.Get(d.tokens[fd]); ok {
		return e.Value
	}
	return nil
}

// Remove removes a descriptor, if it is in the set.
func (d *Dispatcher) Remove(fd int) {
	if t, ok := d.tokens[fd]; ok {
		delete(d.tokens, fd)
		_, _ = d.set.Remove(t)
	}
}

// Dispatch waits until a descriptor is ready or the timeout has passed, as Set.Wait does.
// Then it calls the handler of each ready descriptor once. A handler may change the set.
// The result is the number of ready descriptors.
func (d *Dispatcher) Dispatch(timeout time.Duration) (ready int, err error) {
	n, err := d.set.Wait(timeout)
	for i := range n {
		// An earlier handler may have removed the descriptor.
		if e, ok := d.set.Get(d.set.Token(i)); ok {
			e.Value.OnReady(e.FD, d.set.Events(i))
		}
	}
	return n, err
}

// Await blocks until a descriptor of the set is ready. Any goroutine may call it before
// Close.
func (d *Dispatcher) Await() { await(d.set.fd) }
