//go:build linux

package epollset

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/epollwait"
)

// A Handler handles the events of a descriptor. It must not block. An event can be out
// of date: another handler may have read from the descriptor already.
type Handler interface {
	// OnReady is called with the descriptor and its events, such as unix.EPOLLIN.
	OnReady(fd int, events uint32)
}

// A Set is a set of descriptors with handlers. Only one goroutine, the owner, may call
// its methods, except where a method says otherwise.
type Set struct {
	fd     int // epoll descriptor
	waiter epollwait.Waiter
	// members has the descriptors of the set. It is nil after Close.
	members   map[int32]member
	lastAdded int32 // generation of the descriptor that was added last
	ready     [maxReady]unix.EpollEvent
}

// A member is a descriptor in a Set.
type member struct {
	handler Handler // may be nil
	// generation is a different number for each call of Add. It tells an event of this
	// descriptor from an event of a closed descriptor with the same number.
	generation int32
}

// event returns the argument of epoll_ctl(2) for a member.
func (m member) event(fd int, events uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(fd), Pad: m.generation}
}

// maxReady is the largest number of ready descriptors in one Dispatch. Arbitrary.
const maxReady = 64

// New makes an empty set. The caller closes it.
func New() (*Set, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &Set{fd: fd, waiter: epollwait.New(fd), members: make(map[int32]member)}, nil
}

// FD returns the epoll descriptor. It is readable while a descriptor of the set is
// ready. Any goroutine may call FD before Close.
func (s *Set) FD() int { return s.fd }

// Close closes the set, but not the descriptors in it. A second call does nothing.
func (s *Set) Close() {
	if s.members != nil {
		_ = unix.Close(s.fd)
		s.members = nil
	}
}

// Add adds the descriptor fd. Dispatch calls h for the given events. If h is nil, the
// events only make FD readable. The caller must remove fd from the set before closing
// it. Add returns the errors of epoll_ctl(2), and unix.EBADF after Close.
func (s *Set) Add(fd int, events uint32, h Handler) error {
	if s.members == nil {
		return unix.EBADF
	}
	s.lastAdded++
	m := member{handler: h, generation: s.lastAdded}
	if err := unix.EpollCtl(s.fd, unix.EPOLL_CTL_ADD, fd, m.event(fd, events)); err != nil {
		return err
	}
	s.members[int32(fd)] = m
	return nil
}

// Modify replaces the events of a descriptor. EPOLLHUP and EPOLLERR are always reported
// (epoll_ctl(2)).
func (s *Set) Modify(fd int, events uint32) {
	_ = unix.EpollCtl(s.fd, unix.EPOLL_CTL_MOD, fd, s.members[int32(fd)].event(fd, events))
}

// SetHandler replaces the handler of a descriptor in the set.
func (s *Set) SetHandler(fd int, h Handler) {
	m := s.members[int32(fd)]
	m.handler = h
	s.members[int32(fd)] = m
}

// Handler returns the handler of a descriptor, or nil.
func (s *Set) Handler(fd int) Handler { return s.members[int32(fd)].handler }

// Remove removes a descriptor, if it is in the set.
func (s *Set) Remove(fd int) {
	if _, ok := s.members[int32(fd)]; ok {
		delete(s.members, int32(fd))
		_ = unix.EpollCtl(s.fd, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// Dispatch calls the handler of each ready descriptor once, without waiting. A handler
// may change the set. The error is an *os.SyscallError of epoll_wait(2).
func (s *Set) Dispatch() error {
	_, err := s.WaitAndDispatch(0)
	return err
}

// WaitAndDispatch waits until a descriptor is ready or the timeout has passed, and then
// does what Dispatch does. A negative timeout means no limit. The result is the number of
// ready descriptors.
func (s *Set) WaitAndDispatch(timeout time.Duration) (ready int, err error) {
	n, err := s.waiter.Wait(s.ready[:], timeout)
	if err != nil {
		return 0, err
	}
	for _, e := range s.ready[:n] {
		// An earlier handler may have replaced the descriptor.
		if m := s.members[e.Fd]; m.handler != nil && m.generation == e.Pad {
			m.handler.OnReady(int(e.Fd), e.Events)
		}
	}
	return n, nil
}

// Wait blocks until a descriptor of the set is ready. Any goroutine may call it before
// Close.
func (s *Set) Wait() {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return
		}
	}
}
