//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/asyncq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// objectTable finds the Go side of an object by its address in C. Any goroutine
// may call.
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

// A rawAsync is an event as the shim returns it: the type of enum ibv_event_type, and
// the address of the object or the number of the port.
type rawAsync struct {
	object uint64
	typ    uint32
	port   uint32
}

// asyncQueue holds asynchronous events between the device and NextAsync. There
// are two who look for them: NextAsync, and a CQ that has long been empty and
// may have been overrun. So that the descriptor stays readable for the first
// when the second has fetched an event, it is an epoll descriptor over the
// device's own and an eventfd.
type asyncQueue struct {
	epoll, bell int
	// take fetches an event of the device. It returns 1, 0 when there is none, or a
	// negated errno.
	take func(*rawAsync) int32
	// identify finds the object of an event. It returns false when the object is closed
	// or was not made by this package.
	identify func(*rawAsync) (verbs.AsyncEvent, bool)

	mu     sync.Mutex
	events asyncq.Queue
	closed bool
}

// newAsyncQueue makes the event queue of a device. fd becomes readable when the
// device has an event.
func newAsyncQueue(
	fd int, take func(*rawAsync) int32, identify func(*rawAsync) (verbs.AsyncEvent, bool),
) (*asyncQueue, error) {
	a := &asyncQueue{epoll: -1, bell: -1, take: take, identify: identify}
	if err := a.open(fd); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// openAsync makes the event queue of the device.
func (d *device) openAsync() (*asyncQueue, error) {
	if err := verbsError("watch for asynchronous events", int32(C.rl_nonblock(d.ctx.async_fd))); err != nil {
		return nil, err
	}
	return newAsyncQueue(int(d.ctx.async_fd), d.takeAsync, d.asyncEvent)
}

func (a *asyncQueue) open(fd int) (err error) {
	if a.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if a.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	for _, fd := range []int{fd, a.bell} {
		if err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
			return err
		}
	}
	return nil
}

func (a *asyncQueue) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	for _, fd := range []int{a.epoll, a.bell} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// AsyncFD is the queue's descriptor.
func (d *device) AsyncFD() int { return d.async.epoll }

// NextAsync takes the oldest event.
func (d *device) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return d.async.next(ev) }

func (a *asyncQueue) next(ev *verbs.AsyncEvent) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false, verbs.Wrap("next asynchronous event", verbs.ErrClosed)
	}
	err := a.fetch()
	var ok bool
	*ev, ok = a.events.Pop()
	a.ring()
	if !ok {
		return false, verbs.Wrap("next asynchronous event", err)
	}
	return true, nil
}

// forget drops the events about a closed QP, CQ or SRQ.
func (a *asyncQueue) forget(object any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events.Forget(object)
	if !a.closed {
		a.ring()
	}
}

// look fetches what there is, for those whom it concerns.
func (a *asyncQueue) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	// What can not be fetched now is left for NextAsync to report.
	_ = a.fetch()
	a.ring()
}

// fetch takes all events from the device. It acknowledges them at once, so that
// closing an object never waits. A call that a signal has interrupted is repeated,
// because EINTR is no error of the device.
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

// asyncEvent makes an event of what the shim fetched, and tells a CQ that it was
// overrun. It reports false when the object is not ours, or not any more.
func (d *device) asyncEvent(raw *rawAsync) (ev verbs.AsyncEvent, ok bool) {
	ev = verbs.AsyncEvent{Type: verbs.AsyncEventType(raw.typ), Port: uint8(raw.port)}
	if raw.object == 0 {
		return ev, true
	}
	switch o := d.objects.find(uintptr(raw.object)).(type) {
	case *cq:
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

// ring makes the bell readable while there are events, and else not.
func (a *asyncQueue) ring() {
	var b [8]byte
	if a.events.Len() == 0 {
		_, _ = unix.Read(a.bell, b[:]) // EAGAIN: it was not
		return
	}
	b[0] = 1
	_, _ = unix.Write(a.bell, b[:]) // EAGAIN: it has been rung 2^64 times
}
