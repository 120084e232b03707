//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/asyncq"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An objectTable finds a Go object by the address of its C object. Any goroutine may
// call its methods.
type objectTable struct {
	mu    sync.Mutex
	table map[uintptr]any
}

func (t *objectTable) add(address uintptr, object any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.table == nil {
		t.table = make(map[uintptr]any)
	}
	t.table[address] = object
}

func (t *objectTable) remove(address uintptr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.table, address)
}

func (t *objectTable) find(address uintptr) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.table[address]
}

// A rawAsync is an asynchronous event in the form in which the C code returns it.
type rawAsync struct {
	object uint64 // address of the QP, CQ or SRQ that the event is about, or 0
	typ    uint32 // enum ibv_event_type
	port   uint32 // port that the event is about, or 0
}

// An asyncQueue keeps asynchronous events of a device until NextAsync returns them.
//
// Besides NextAsync, a CQ also fetches events, to find out whether it was overrun. The
// events that it fetches wait in the asyncQueue, and event is readable meanwhile.
//
// A program waits on the epoll descriptor, which watches the device's descriptor and
// event.
type asyncQueue struct {
	epoll *fdevent.Set[struct{}]
	event *fdevent.Event
	// take fetches one event. It returns 1 for an event, 0 for no event, or a negated
	// errno.
	take func(*rawAsync) int32
	// identify converts an event and finds its object. It returns false if the object is
	// unknown or closed.
	identify func(*rawAsync) (verbs.AsyncEvent, bool)

	mu     sync.Mutex
	events asyncq.Queue
	closed bool
}

// newAsyncQueue creates an asyncQueue. fd is the device's descriptor, which is readable
// while the device has an event.
func newAsyncQueue(
	fd int, take func(*rawAsync) int32, identify func(*rawAsync) (verbs.AsyncEvent, bool),
) (*asyncQueue, error) {
	a := &asyncQueue{take: take, identify: identify}
	if err := a.open(fd); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// openAsync creates the asyncQueue of the device.
func (d *device) openAsync() (*asyncQueue, error) {
	if err := verbsError("watch for asynchronous events", int32(C.rl_nonblock(d.ctx.async_fd))); err != nil {
		return nil, err
	}
	return newAsyncQueue(int(d.ctx.async_fd), d.takeAsync, d.asyncEvent)
}

func (a *asyncQueue) open(fd int) (err error) {
	if a.epoll, err = fdevent.NewSet[struct{}](1); err != nil {
		return err
	}
	if a.event, err = fdevent.NewEvent(); err != nil {
		return err
	}
	if err = a.epoll.Attach(fd, fdevent.In); err != nil {
		return err
	}
	return a.epoll.Attach(a.event.FD(), fdevent.In)
}

func (a *asyncQueue) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	_, _ = a.epoll.Close(), a.event.Close()
}

// AsyncFD returns a descriptor that is readable while NextAsync can return an event.
func (d *device) AsyncFD() int { return d.async.epoll.FD() }

// NextAsync returns the oldest event and removes it from the asyncQueue.
func (d *device) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return d.async.next(ev) }

func (a *asyncQueue) next(ev *verbs.AsyncEvent) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false, operr.Wrap("next asynchronous event", verbs.ErrClosed)
	}
	err := a.fetch()
	var ok bool
	*ev, ok = a.events.Pop()
	a.signal()
	if !ok {
		return false, operr.Wrap("next asynchronous event", err)
	}
	return true, nil
}

// dropEvents drops the events of a closed QP, CQ or SRQ.
func (a *asyncQueue) dropEvents(object any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events.Forget(object)
	if !a.closed {
		a.signal()
	}
}

// fetchAll moves all events from the device to the asyncQueue. A CQ that looks empty
// calls it, to find out whether it was overrun.
func (a *asyncQueue) fetchAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	// The next call of NextAsync reports the error.
	_ = a.fetch()
	a.signal()
}

// fetch moves all events from the device to the asyncQueue. It acknowledges each event
// at once, because an object can not be destroyed before its events are acknowledged.
func (a *asyncQueue) fetch() error {
	for {
		var raw rawAsync
		n := a.take(&raw)
		switch {
		case n == -int32(unix.EINTR):
			continue
		case n <= 0:
			return verbsError("get asynchronous event", n)
		}
		if ev, ok := a.identify(&raw); ok {
			a.events.Push(ev)
		}
	}
}

// takeAsync fetches one event from libibverbs.
//
// Implements: ibv_get_async_event(3), ibv_ack_async_event(3).
func (d *device) takeAsync(raw *rawAsync) int32 {
	var ev C.struct_rl_async
	n := C.rl_next_async(d.ctx, &ev)
	*raw = rawAsync{object: uint64(ev.object), typ: uint32(ev._type), port: uint32(ev.port)}
	return int32(n)
}

// asyncEvent converts an event of libibverbs. It returns false if the object is unknown
// or closed.
func (d *device) asyncEvent(raw *rawAsync) (ev verbs.AsyncEvent, ok bool) {
	ev = verbs.AsyncEvent{Type: verbs.AsyncEventType(raw.typ), Port: uint8(raw.port)}
	if raw.object == 0 {
		return ev, true
	}
	switch o := d.objects.find(uintptr(raw.object)).(type) {
	case *cq:
		// The only event of a CQ is AsyncCQError, which reports an overrun.
		o.broken.Store(true)
		ev.CQ = o
	case *qp:
		ev.QP = o
	case *srq:
		ev.SRQ = o
	default:
		return ev, false
	}
	return ev, true
}

// signal makes event readable if there are events, and not readable if there are none.
func (a *asyncQueue) signal() {
	if a.events.Len() == 0 {
		a.event.Drain()
	} else {
		a.event.Signal()
	}
}
