package faultcq

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A bell is a descriptor that is readable or not, as it is set.
type bell struct {
	fd  int
	on  bool
	buf [8]byte
}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &bell{fd: fd}, nil
}

// set makes the descriptor readable or not. Neither call can fail on an open
// eventfd whose count is 0 or 1.
func (b *bell) set(on bool) {
	if b.on == on {
		return
	}
	b.on = on
	if !on {
		_, _ = unix.Read(b.fd, b.buf[:])
		return
	}
	binary.NativeEndian.PutUint64(b.buf[:], 1) // eventfd(2): host byte order
	_, _ = unix.Write(b.fd, b.buf[:])
}

func (b *bell) readable() (bool, error) {
	fds := [1]unix.PollFd{{Fd: int32(b.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR {
			return n > 0, err
		}
	}
}

func (b *bell) close() error { return unix.Close(b.fd) }
