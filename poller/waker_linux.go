package poller

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// A waker makes an eventfd readable, from any goroutine. The first goroutine sets
// wakePending and writes to the eventfd. As long as wakePending is set, other goroutines
// do nothing.
type waker struct {
	state atomic.Uint32
	fd    int // the eventfd
}

const (
	wakePending uint32 = 1 << iota
	wakeClosed
)

func (w *waker) open() (err error) {
	w.fd, err = eventfd.New()
	return os.NewSyscallError("eventfd", err)
}

// wake makes the eventfd readable, unless a wake is pending or the waker is closed.
func (w *waker) wake() {
	if w.state.Or(wakePending) == 0 {
		eventfd.Signal(w.fd)
	}
}

// consume drains the eventfd first and clears wakePending last. In the other order, it
// could drain the signal of a new wake.
func (w *waker) consume() {
	eventfd.Drain(w.fd)
	w.state.And(^wakePending)
}

// close waits for a pending signal before it closes the eventfd. Otherwise the signal
// could reach another file that gets the same descriptor number.
func (w *waker) close() error {
	if w.state.Or(wakeClosed)&wakePending != 0 {
		w.awaitSignal()
	}
	return os.NewSyscallError("close", unix.Close(w.fd))
}

func (w *waker) awaitSignal() {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Ppoll(fds, nil, nil); err != unix.EINTR {
			return
		}
	}
}
