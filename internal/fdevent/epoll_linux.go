package fdevent

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Events of epoll_ctl(2), for files that are compiled on other systems too.
const (
	In  uint32 = unix.EPOLLIN
	Out uint32 = unix.EPOLLOUT
	Hup uint32 = unix.EPOLLHUP
	Err uint32 = unix.EPOLLERR
)

// An epoll is an epoll instance with the events of its last wait.
type epoll struct {
	fd int
	// Coarse means that the kernel has no epoll_pwait2(2). Timeouts are then rounded up to
	// milliseconds.
	Coarse bool
	events []unix.EpollEvent
}

func (e *epoll) open(maxEvents int) error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	*e = epoll{fd: fd, events: make([]unix.EpollEvent, maxEvents)}
	// Linux before 5.11 returns ENOSYS, and some sandboxes return EPERM, so every error
	// means that epoll_pwait2 can not be used.
	_, errno := pwait2(fd, e.events, &timespec{})
	e.Coarse = errno != 0
	return nil
}

func (e *epoll) close() error {
	fd := e.fd
	e.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// FD returns the epoll descriptor, or -1 after Close. It is readable while a descriptor
// of the set is ready. Any goroutine may call FD before Close.
func (e *epoll) FD() int { return e.fd }

// Attach adds the descriptor fd without a value. Its events have the token 0.
func (e *epoll) Attach(fd int, events uint32) error { return e.add(fd, events, 0) }

func (e *epoll) add(fd int, events uint32, t Token) error {
	return e.control(unix.EPOLL_CTL_ADD, fd, events, t)
}

func (e *epoll) modify(fd int, events uint32, t Token) error {
	return e.control(unix.EPOLL_CTL_MOD, fd, events, t)
}

func (e *epoll) remove(fd int) error { return e.control(unix.EPOLL_CTL_DEL, fd, 0, 0) }

// control calls epoll_ctl(2). The kernel returns the token with each event.
func (e *epoll) control(op, fd int, events uint32, t Token) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(t), Pad: int32(t >> 32)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, op, fd, &ev))
}

// Token returns the token of event i of the last Wait. The first event has number 0.
func (e *epoll) Token(i int) Token {
	ev := &e.events[i]
	return Token(uint32(ev.Pad))<<32 | Token(uint32(ev.Fd))
}

// Events returns the bits of event i of the last Wait.
func (e *epoll) Events(i int) uint32 { return e.events[i].Events }

// Copy overwrites event dst with event src.
func (e *epoll) Copy(dst, src int) { e.events[dst] = e.events[src] }

// Wait waits for the first event, at most until the timeout, and returns the number of
// events. A negative timeout means no limit. A zero timeout never blocks and is cheap.
// Signals do not end the wait, because the Go runtime sends signals to preempt goroutines
// (signal(7)).
func (e *epoll) Wait(timeout time.Duration) (int, error) {
	if timeout == 0 {
		return e.peek()
	}
	start, left := time.Now(), timeout
	for {
		n, errno := e.block(left)
		if errno != unix.EINTR {
			return result(n, errno)
		}
		if timeout > 0 {
			left = max(0, timeout-time.Since(start))
		}
	}
}

// peek is Wait with a timeout of zero.
func (e *epoll) peek() (int, error) {
	for {
		if n, errno := peek(e.fd, e.events); errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// block makes one system call. It returns when there are events, when the timeout has
// passed, or when a signal arrives.
func (e *epoll) block(timeout time.Duration) (int, unix.Errno) {
	switch {
	case e.Coarse:
		return pwait(e.fd, e.events, milliseconds(timeout))
	case timeout < 0:
		return pwait2(e.fd, e.events, nil)
	}
	return pwait2(e.fd, e.events, &timespec{
		sec:  int64(timeout / time.Second),
		nsec: int64(timeout % time.Second),
	})
}

// milliseconds converts a duration for epoll_pwait(2). It rounds up, because a timeout of
// 0 would not block. The result is at most 2^31-1 ms, which is 24 days. A negative
// duration is -1.
func milliseconds(d time.Duration) int {
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
