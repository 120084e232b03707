package poller

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An epoll is an epoll instance with the events of its last wait. The kernel keeps a
// token for each descriptor. It could not keep a Go pointer, because the garbage
// collector does not look into the kernel.
type epoll struct {
	fd        int
	hasPwait2 bool // the kernel has epoll_pwait2(2)
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

// probe reports whether epoll_pwait2(2) works. Before Linux 5.11 it fails with ENOSYS,
// and in some sandboxes with EPERM.
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

// control calls epoll_ctl(2). The kernel returns the token with each event.
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

// copy overwrites event dst with event src.
func (e *epoll) copy(dst, src int) { e.events[dst] = e.events[src] }

// wait waits for events until the timeout has passed. Signals do not end it, because the
// Go runtime sends signals to preempt goroutines (signal(7)).
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

// block makes one system call. A signal ends the call with EINTR.
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

// milliseconds converts a duration for epoll_pwait. It rounds up, because a timeout of 0
// would not block. The longest timeout is 2^31-1 ms, which is 24 days.
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
