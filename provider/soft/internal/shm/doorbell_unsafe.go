//go:build linux

package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringByte is the byte that RingDoorbell sends. It is never changed.
var ringByte = [1]byte{1}

// RingDoorbell wakes the peer. It never blocks, and ignores errors. EAGAIN means that
// the peer's socket is already readable. Any other error means that the peer has closed
// its socket.
func RingDoorbell(fd int) {
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&ringByte)), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// DrainDoorbell reads the bytes that the peer has sent, at most len(buf) of them.
func DrainDoorbell(fd int, buf []byte) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))),
		uintptr(len(buf)), unix.MSG_DONTWAIT, 0, 0)
}
