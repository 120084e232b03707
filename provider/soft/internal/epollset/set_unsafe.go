//go:build linux

package epollset

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollNow is epoll_wait(2) with a timeout of zero. It never blocks, so it makes the
// system call without informing the Go scheduler, which would take longer than the call
// itself.
func epollNow(epfd int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
