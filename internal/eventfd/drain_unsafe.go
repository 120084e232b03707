//go:build linux

package eventfd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Drain makes fd unreadable until the next Signal. It does nothing if fd is not
// readable. It does not use unix.Read, which would allocate with the race detector.
func Drain(fd int) {
	var count uint64
	_, _, _ = unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
}
