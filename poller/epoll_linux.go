package poller

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// epoll is an epoll instance and the events of its last wait. Each event carries a
// token, not a pointer, because a pointer in the kernel's memory does not keep its
// object alive.
type epoll struct {
	fd        int
	hasPwait2 bool // the kernel has epoll_pwait2
	events    []unix.EpollEvent
}

func (e *epoll) open(maxEvents int) error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	*e = epoll{fd: fd, events: make([]unix.EpollEvent, maxEvents)}
	e.hasPwait2 = e.probe()
	return nil
}

// probe reports whether the kernel has epoll_pwait2, which Linux has since 5.11. probe
// reports false for every error, because some sandboxes answer an unknown system call
// with EPERM instead of ENOSYS.
func (e *epoll) probe() bool {
	_, errno := epollPwait2(e.fd, e.events, &timespec{})
	return errno == 0
}

func (e *epoll) close() error {
	fd := e.fd
	e.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

func (e *epoll) add(fd int, interest Interest, t Token) error {
	return e.control(unix.EPOLL_CTL_ADD, fd, interest, t)
}

func (e *epoll) modify(fd int, interest Interest, t Token) error {
	return e.control(unix.EPOLL_CTL_MOD, fd, interest, t)
}

func (e *epoll) remove(fd int) error {
	return e.control(unix.EPOLL_CTL_DEL, fd, 0, 0)
}

// control calls epoll_ctl. The token goes into the 64 bits of data that the kernel
// returns with each event; x/sys/unix declares them as two 32-bit fields.
func (e *epoll) control(op, fd int, interest Interest, t Token) error {
	ev := unix.EpollEvent{Fd: int32(t), Pad: int32(t >> 32)}
	if interest&Readable != 0 {
		ev.Events |= unix.EPOLLIN
	}
	if interest&Writable != 0 {
		ev.Events |= unix.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, op, fd, &ev))
}

func (e *epoll) token(i int) Token {
	ev := &e.events[i]
	return Token(uint32(ev.Pad))<<32 | Token(uint32(ev.Fd))
}

func (e *epoll) ready(i int) (r Readiness) {
	bits := e.events[i].Events
	if bits&unix.EPOLLIN != 0 {
		r |= Readable
	}
	if bits&unix.EPOLLOUT != 0 {
		r |= Writable
	}
	if bits&unix.EPOLLHUP != 0 {
		r |= Hangup
	}
	if bits&unix.EPOLLERR != 0 {
		r |= Error
	}
	return r
}

// copy copies event from over event to.
func (e *epoll) copy(to, from int) { e.events[to] = e.events[from] }

// wait waits for events, at most for the timeout. When a signal interrupts it, it waits
// again for the rest of the time, because the Go runtime sends signals to preempt
// goroutines, and the kernel never restarts epoll_wait (signal(7)).
func (e *epoll) wait(timeout time.Duration) (int, error) {
	if timeout == 0 {
		return result(epollPeek(e.fd, e.events))
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

// block waits once: until there are events, the timeout has passed, or a signal arrives.
func (e *epoll) block(timeout time.Duration) (int, unix.Errno) {
	switch {
	case !e.hasPwait2:
		return epollPwait(e.fd, e.events, milliseconds(timeout))
	case timeout < 0:
		return epollPwait2(e.fd, e.events, nil)
	}
	return epollPwait2(e.fd, e.events, &timespec{
		sec:  int64(timeout / time.Second),
		nsec: int64(timeout % time.Second),
	})
}

// milliseconds returns a duration in milliseconds, rounded up, so that a short wait does
// not become a busy loop. The result is at most 2^31-1 ms, 24 days, because epoll_pwait
// takes an int.
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
