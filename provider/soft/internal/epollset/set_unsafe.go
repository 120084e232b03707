//go:build linux

package epollset

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollNow is epoll_wait(2) with a timeout of zero. It does not inform the Go scheduler,
// because this would take longer than the call.
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
