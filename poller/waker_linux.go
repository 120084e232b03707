package poller

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// A waker makes its eventfd readable, from any goroutine. Only the goroutine that sets
// wakePending writes to the eventfd.
//
// While wakePending is set, the eventfd is readable or about to become so.
type waker struct {
	state atomic.Uint32
	fd    int // descriptor of the eventfd
}

const (
	wakePending uint32 = 1 << iota
	wakeClosed
)

func (w *waker) open() (err error) {
	w.fd, err = eventfd.New()
	return os.NewSyscallError("eventfd", err)
}

// wake makes the descriptor readable. It does nothing if another wake is pending or the
// waker is closed.
func (w *waker) wake() {
	if w.state.Or(wakePending) == 0 {
		eventfd.Signal(w.fd)
	}
}

// consume drains the eventfd and then clears wakePending. In the opposite order, it
// could drain the signal of a later wake.
func (w *waker) consume() {
	eventfd.Drain(w.fd)
	w.state.And(^wakePending)
}

// close first waits for a pending signal. A later signal could reach another file with
// the same descriptor number.
func (w *waker) close() error {
	if w.state.Or(wakeClosed)&wakePending != 0 {
		w.awaitSignal()
	}
	return os.NewSyscallError("close", unix.Close(w.fd))
}

// awaitSignal waits until the descriptor is readable.
func (w *waker) awaitSignal() {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Ppoll(fds, nil, nil); err != unix.EINTR {
			return
		}
	}
}
