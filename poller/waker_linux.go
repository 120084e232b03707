package poller

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// A waker lets any goroutine make the descriptor of its eventfd readable. All wakes that
// happen before the owner reacts cost one system call together.
//
// The goroutine that sets wakePending signals the eventfd. No other goroutine signals it
// until the owner has drained it and then cleared wakePending. There is therefore at most
// one signal at a time, and a set wakePending always leads to a readable descriptor.
type waker struct {
	state atomic.Uint32
	fd    int // eventfd
}

const (
	wakePending uint32 = 1 << iota
	wakeClosed
)

func (w *waker) open() (err error) {
	w.fd, err = eventfd.New()
	return os.NewSyscallError("eventfd", err)
}

// wake makes the descriptor readable, unless a wake is pending or the waker is closed.
func (w *waker) wake() {
	if w.state.Or(wakePending) == 0 {
		eventfd.Signal(w.fd)
	}
}

// consume is called by the owner when the descriptor is readable. It drains the eventfd
// before it clears wakePending. In the other order a signal between the two steps would
// be lost while wakePending stays set, and no later wake would signal.
func (w *waker) consume() {
	eventfd.Drain(w.fd)
	w.state.And(^wakePending)
}

// close closes the descriptor. If a goroutine is about to signal the eventfd, close
// waits until it has done so. After that no goroutine writes to the descriptor, whose
// number may soon belong to another file.
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
