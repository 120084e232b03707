//go:build linux

package eventfd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// New makes a descriptor that is not readable. Calls that read or write it never block.
// The caller owns the descriptor.
func New() (int, error) {
	return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
}

// Signal makes fd readable. Any goroutine may call it. Signal ignores errors for these
// reasons. EAGAIN means that the counter of fd has its maximum, so fd is readable
// already. Any other error means that fd is closed, so no goroutine waits for it.
func Signal(fd int) { _, _ = unix.Write(fd, increment) }

// increment is the number that Signal adds to the counter of a descriptor. It is an
// integer of 64 bits in the byte order of the host. The variable is never changed.
var increment = binary.NativeEndian.AppendUint64(nil, 1)
