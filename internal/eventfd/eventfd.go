//go:build linux

package eventfd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// New makes a descriptor that is not readable and never blocks. The caller owns it.
func New() (int, error) {
	return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
}

// Signal makes fd readable. Any goroutine may call it. Signal ignores errors: fd is
// readable already (EAGAIN) or closed.
func Signal(fd int) { _, _ = unix.Write(fd, increment) }

// increment is the number that Signal adds to a descriptor's counter: 64 bits in host
// byte order.
var increment = binary.NativeEndian.AppendUint64(nil, 1)
