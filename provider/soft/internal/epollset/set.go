//go:build linux

package epollset

import "golang.org/x/sys/unix"

// A Handler handles the events of a descriptor. It never blocks. If the descriptor is not
// ready, it does nothing: the events may belong to a closed descriptor that had the same
// number.
type Handler interface {
	// OnReady is called with the descriptor and its events, such as unix.EPOLLIN.
	OnReady(fd int, events uint32)
}

// A Set is a set of descriptors with their handlers. It belongs to one owner. Dispatch
// calls the handlers.
type Set struct {
	fd int // epoll descriptor
	// handlers has the handler of each descriptor, which may be nil. The map itself is
	// nil after Close.
	handlers map[int32]Handler
	ready    [maxReady]unix.EpollEvent
}

// maxReady is the largest number of ready descriptors that one call of Dispatch handles.
// It is arbitrary. The next call handles the others.
const maxReady = 64

// New makes an empty set. The caller closes it.
func New() (*Set, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &Set{fd: fd, handlers: make(map[int32]Handler)}, nil
}

// FD returns a descriptor that is readable while at least one descriptor of the set is
// ready. Any goroutine may call FD. After Close, the number may belong to another file.
func (s *Set) FD() int { return s.fd }

// Close closes the set. The descriptors in the set stay open, and have no handlers any
// more. Closing the set again does nothing.
func (s *Set) Close() {
	if s.handlers != nil {
		_ = unix.Close(s.fd)
		s.handlers = nil
	}
}

// Add adds a descriptor, which must not be in the set. Dispatch calls h for its events.
// If h is nil, the descriptor only makes FD readable. The set does not own the
// descriptor: the caller removes it from the set before closing it. The errors are those
// of epoll_ctl(2), and unix.EBADF after Close.
func (s *Set) Add(fd int, events uint32, h Handler) error {
	if s.handlers == nil {
		return unix.EBADF
	}
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if err := unix.EpollCtl(s.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return err
	}
	s.handlers[int32(fd)] = h
	return nil
}

// Modify changes for which events of a descriptor Dispatch calls the handler. The kernel
// always reports a hangup and an error too (epoll_ctl(2)).
func (s *Set) Modify(fd int, events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	_ = unix.EpollCtl(s.fd, unix.EPOLL_CTL_MOD, fd, &ev)
}

// SetHandler replaces the handler of a descriptor in the set.
func (s *Set) SetHandler(fd int, h Handler) { s.handlers[int32(fd)] = h }

// Handler returns the handler of a descriptor. It returns nil if the descriptor has no
// handler or is not in the set.
func (s *Set) Handler(fd int) Handler { return s.handlers[int32(fd)] }

// Remove removes a descriptor, if it is in the set.
func (s *Set) Remove(fd int) {
	if _, ok := s.handlers[int32(fd)]; ok {
		delete(s.handlers, int32(fd))
		_ = unix.EpollCtl(s.fd, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// Dispatch calls the handler of each descriptor that is ready, once. It does not wait. A
// handler may change the set. If epoll_wait(2) fails, usually with EINTR, Dispatch
// returns the error and has called no handler.
func (s *Set) Dispatch() error {
	n, err := epollNow(s.fd, s.ready[:])
	if err != nil {
		return err
	}
	for _, e := range s.ready[:n] {
		// The handler of an earlier event may have removed the descriptor.
		if h := s.handlers[e.Fd]; h != nil {
			h.OnReady(int(e.Fd), e.Events)
		}
	}
	return nil
}

// Wait blocks until a descriptor of the set is ready. Unlike the other methods, Wait may
// be called from any goroutine while the set is open.
func (s *Set) Wait() {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return
		}
	}
}
