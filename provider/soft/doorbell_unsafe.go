//go:build linux

package soft

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bellSound is what is sent. It is never changed.
var bellSound = [1]byte{1}

// ringDoorbell wakes the peer. A full buffer (EAGAIN) wakes it as well; other errors
// mean that it is gone. The call can not block, so it does not tell the scheduler.
func ringDoorbell(fd int) {
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&bellSound)), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// blockDoorbell takes the rings that have arrived, as far as buf holds them.
func blockDoorbell(fd int, buf []byte) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))),
		uintptr(len(buf)), unix.MSG_DONTWAIT, 0, 0)
}
