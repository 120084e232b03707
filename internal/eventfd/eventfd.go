//go:build linux

package eventfd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// New returns a new descriptor, which is not readable. Reads and writes never block. The
// caller owns the descriptor.
func New() (int, error) {
	return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
}

// Signal makes fd readable. Any goroutine may call it. Errors are ignored: fd is readable
// already (EAGAIN) or closed.
func Signal(fd int) { _, _ = unix.Write(fd, increment) }

// Signal adds this number to a descriptor's counter: 1 in 64 bits in host byte order.
var increment = binary.NativeEndian.AppendUint64(nil, 1)
