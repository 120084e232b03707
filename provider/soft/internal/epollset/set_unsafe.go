//go:build linux

package epollset

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollNow is epoll_wait(2) with a timeout of zero. It never blocks, so it makes the
// system call without informing the Go scheduler, which would take longer than the call
// itself. If a signal interrupts the system call (EINTR), epollNow repeats it.
func epollNow(epfd int, events []unix.EpollEvent) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
			uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
