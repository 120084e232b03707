//go:build linux

package fdevent

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A timespec is the kernel's struct __kernel_timespec. Its fields have 64 bits on every
// architecture. The fields of unix.Timespec do not.
type timespec struct{ sec, nsec int64 }

// pwait2 waits for events until the time in ts has passed. If ts is nil, there is no
// limit. Source: epoll_pwait2(2).
func pwait2(fd int, events []unix.EpollEvent, ts *timespec) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	return int(n), errno
}

// pwait waits for events for at most ms milliseconds. If ms is negative, there is no
// limit. Source: epoll_pwait(2).
func pwait(fd int, events []unix.EpollEvent, ms int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(ms), 0, 0)
	return int(n), errno
}

// peek stores the events that are ready now, and returns their number. It never blocks,
// so it does not tell the Go scheduler about the system call. That saves time.
func peek(fd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		0, 0, 0)
	return int(n), errno
}

// drain reads the counter of an eventfd or a timerfd. With the race detector, unix.Read
// allocates memory, so drain makes the system call itself.
func drain(fd int) {
	var count uint64
	_, _, _ = unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
}
