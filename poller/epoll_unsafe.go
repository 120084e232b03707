//go:build linux

package poller

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// timespec is the kernel's struct __kernel_timespec, of 64 bits on every
// architecture, as unix.Timespec is not.
type timespec struct{ sec, nsec int64 }

// epollPwait2 blocks for ts, or without limit when it is nil. See epoll_pwait2(2).
func epollPwait2(fd int, events []unix.EpollEvent, ts *timespec) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	return int(n), errno
}

// epollPwait blocks for ms milliseconds, or without limit when negative. See
// epoll_pwait(2).
func epollPwait(fd int, events []unix.EpollEvent, ms int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(ms), 0, 0)
	return int(n), errno
}

// epollPeek does not block, which is why it may be a raw call: the scheduler is
// not told, and does not give the processor away.
func epollPeek(fd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		0, 0, 0)
	return int(n), errno
}
