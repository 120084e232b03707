package faultcq

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A notifier is a descriptor that can be made readable or not readable.
type notifier struct {
	fd  int
	on  bool
	buf [8]byte
}

func newNotifier() (*notifier, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &notifier{fd: fd}, nil
}

// set makes the descriptor readable or not. Read and write cannot fail on an open
// eventfd whose count is 0 or 1.
func (b *notifier) set(on bool) {
	if b.on == on {
		return
	}
	b.on = on
	if !on {
		_, _ = unix.Read(b.fd, b.buf[:])
		return
	}
	binary.NativeEndian.PutUint64(b.buf[:], 1) // See eventfd(2): host byte order.
	_, _ = unix.Write(b.fd, b.buf[:])
}

func (b *notifier) readable() (bool, error) {
	fds := [1]unix.PollFd{{Fd: int32(b.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR {
			return n > 0, err
		}
	}
}

func (b *notifier) close() error { return unix.Close(b.fd) }
