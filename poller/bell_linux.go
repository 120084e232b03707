package poller

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// A bell is an eventfd: readable from the first ring until it is silenced. See
// eventfd(2). The two numbers are fields, for as locals they could be moved to
// the heap.
type bell struct {
	fd    int
	one   [8]byte // what a ring adds
	count [8]byte // where the owner reads the sum to
}

func (b *bell) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	b.fd = fd
	binary.NativeEndian.PutUint64(b.one[:], 1)
	return os.NewSyscallError("eventfd", err)
}

// ring can not fail: the counter is zero, and far from its limit.
func (b *bell) ring() { _, _ = unix.Write(b.fd, b.one[:]) }

// silence resets the counter, whatever it is, with one read.
func (b *bell) silence() { _, _ = unix.Read(b.fd, b.count[:]) }

// awaitRing waits until the bell has been rung.
func (b *bell) awaitRing() {
	fds := []unix.PollFd{{Fd: int32(b.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Ppoll(fds, nil, nil); err != unix.EINTR {
			return
		}
	}
}

func (b *bell) close() error { return os.NewSyscallError("close", unix.Close(b.fd)) }
