package poller

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// An eventfd is readable from the first signal until reset (eventfd(2)). The two buffers
// are fields because as locals they could be moved to the heap.
type eventfd struct {
	fd    int
	one   [8]byte // the number that signal adds to the counter
	count [8]byte // the buffer into which reset reads the counter
}

func (e *eventfd) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	e.fd = fd
	binary.NativeEndian.PutUint64(e.one[:], 1)
	return os.NewSyscallError("eventfd", err)
}

// signal makes the descriptor readable. It can not fail: the counter is zero, far from
// its limit.
func (e *eventfd) signal() { _, _ = unix.Write(e.fd, e.one[:]) }

// reset sets the counter to zero with one read.
func (e *eventfd) reset() { _, _ = unix.Read(e.fd, e.count[:]) }

// awaitSignal waits until the descriptor is readable.
func (e *eventfd) awaitSignal() {
	fds := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Ppoll(fds, nil, nil); err != unix.EINTR {
			return
		}
	}
}

func (e *eventfd) close() error { return os.NewSyscallError("close", unix.Close(e.fd)) }
