//go:build linux

package poller

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// timespec is the kernel's struct __kernel_timespec. It has 64-bit fields on every
// architecture; unix.Timespec does not.
type timespec struct{ sec, nsec int64 }

// epollPwait2 blocks for ts, or without limit if ts is nil. Source: epoll_pwait2(2).
func epollPwait2(fd int, events []unix.EpollEvent, ts *timespec) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	return int(n), errno
}

// epollPwait blocks for ms milliseconds, or without limit if ms is negative. Source:
// epoll_pwait(2).
func epollPwait(fd int, events []unix.EpollEvent, ms int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(ms), 0, 0)
	return int(n), errno
}

// epollPeek returns the events without blocking. Because the call never blocks, it is
// made without telling the scheduler of the Go runtime, which costs less.
func epollPeek(fd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		0, 0, 0)
	return int(n), errno
}
