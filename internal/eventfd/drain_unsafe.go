//go:build linux

package eventfd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Drain makes fd unreadable until the next Signal. If fd is not readable, Drain does
// nothing.
//
// With the race detector, unix.Read allocates memory, so Drain makes the system call
// itself.
func Drain(fd int) {
	var count uint64
	_, _, _ = unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
}
