package poller

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// A waker lets any goroutine make the descriptor of its eventfd readable. If wake is
// called several times before the owner calls consume, only the first call makes a system
// call.
//
// The goroutine that sets the bit wakePending signals the eventfd. Other goroutines see
// that the bit is set and do not signal. The owner first drains the eventfd and then
// clears the bit. There is therefore at most one signal at a time. Whenever the bit is
// set, the descriptor is readable or is about to become readable.
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

// consume is called by the owner when the descriptor is readable. It first drains the
// eventfd and then clears wakePending. In the other order, a signal between the two steps
// would be drained while wakePending is set, and no later wake would signal.
func (w *waker) consume() {
	eventfd.Drain(w.fd)
	w.state.And(^wakePending)
}

// close closes the descriptor. A goroutine may already have set wakePending and be about
// to write to the eventfd. In that case close first waits until that goroutine has
// written. Otherwise the goroutine could write to another file that has got the same
// descriptor number.
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
