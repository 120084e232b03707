//go:build linux

package epollwait

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Waiter waits for the events of one epoll descriptor. The zero value is not valid.
type Waiter struct {
	fd int
	// Coarse means that the kernel has no epoll_pwait2(2). Timeouts are then rounded up
	// to milliseconds.
	Coarse bool
}

// New returns the Waiter of an open epoll descriptor, which still belongs to the caller.
func New(fd int) Waiter {
	_, errno := pwait2(fd, make([]unix.EpollEvent, 1), &timespec{})
	// Linux before 5.11 returns ENOSYS, and some sandboxes return EPERM, so every error
	// means that epoll_pwait2 can not be used.
	return Waiter{fd: fd, Coarse: errno != 0}
}

// Wait stores events in the slice and returns their number. It waits for the first event,
// at most until the timeout. A negative timeout means no limit. A zero timeout never
// blocks and is cheap. Signals do not end the wait, because the Go runtime sends signals
// to preempt goroutines (signal(7)). The error is an *os.SyscallError.
func (w Waiter) Wait(events []unix.EpollEvent, timeout time.Duration) (int, error) {
	if timeout == 0 {
		return w.peek(events)
	}
	start, left := time.Now(), timeout
	for {
		n, errno := w.block(events, left)
		if errno != unix.EINTR {
			return result(n, errno)
		}
		if timeout > 0 {
			left = max(0, timeout-time.Since(start))
		}
	}
}

// peek is Wait with a timeout of zero.
func (w Waiter) peek(events []unix.EpollEvent) (int, error) {
	for {
		if n, errno := peek(w.fd, events); errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// block makes one system call. It returns when there are events, when the timeout has
// passed, or when a signal arrives.
func (w Waiter) block(events []unix.EpollEvent, timeout time.Duration) (int, unix.Errno) {
	switch {
	case w.Coarse:
		return pwait(w.fd, events, Milliseconds(timeout))
	case timeout < 0:
		return pwait2(w.fd, events, nil)
	}
	return pwait2(w.fd, events, &timespec{
		sec:  int64(timeout / time.Second),
		nsec: int64(timeout % time.Second),
	})
}

// Milliseconds converts a duration for epoll_pwait(2). It rounds up, because a timeout of
// 0 would not block. The result is at most 2^31-1 ms, which is 24 days. A negative
// duration is -1.
func Milliseconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	ms := d / time.Millisecond
	if d%time.Millisecond != 0 {
		ms++
	}
	return int(min(ms, math.MaxInt32))
}

func result(n int, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, os.NewSyscallError("epoll_wait", errno)
	}
	return n, nil
}
