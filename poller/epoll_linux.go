package poller

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/epollwait"
)

// An epoll is an epoll instance with the events of its last wait. The kernel keeps a
// token for each descriptor. It could not keep a Go pointer, because the garbage
// collector does not look into the kernel.
type epoll struct {
	fd     int
	waiter epollwait.Waiter
	events []unix.EpollEvent
}

func (e *epoll) open(maxEvents int) error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	*e = epoll{fd: fd, waiter: epollwait.New(fd), events: make([]unix.EpollEvent, maxEvents)}
	return nil
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

// wait waits for events until the timeout has passed; see epollwait.Waiter.Wait.
func (e *epoll) wait(timeout time.Duration) (int, error) {
	return e.waiter.Wait(e.events, timeout)
}
