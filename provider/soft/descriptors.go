//go:build linux

package soft

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// spareDescriptors are open descriptors that a device keeps in reserve. It closes
// them when the process or the system has no more descriptors (EMFILE and ENFILE of
// accept(2)). Then it can accept a client in order to refuse it, and can complete an
// admitted connection. While some of the reserve is missing, no client is admitted.
//
// The methods may be called from any goroutine.
type spareDescriptors struct {
	mu  sync.Mutex
	fds []int
	// listeners is how many listening sockets there are, of connection management and
	// of UD queue pairs. Without them no descriptors are kept.
	listeners int
}

// spareCount is how many descriptors the accepting side needs for a connection in
// addition to the socket: the segment and both doorbells.
const spareCount = 3

// keep counts a listener, and opens the spare descriptors.
func (s *spareDescriptors) addListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners++
	s.fillLocked()
}

// drop counts the end of a listener, and closes the spare descriptors after the last
// one.
func (s *spareDescriptors) removeListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners--; s.listeners == 0 {
		closeAll(s.fds)
		s.fds = nil
	}
}

// fill opens the missing spare descriptors, and reports whether all are open now.
func (s *spareDescriptors) fill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fillLocked()
}

func (s *spareDescriptors) fillLocked() bool {
	for s.listeners > 0 && len(s.fds) < spareCount {
		fd, err := eventfd.New()
		if err != nil {
			return false
		}
		s.fds = append(s.fds, fd)
	}
	return true
}

// spend closes the spare descriptors, and reports whether any were open.
func (s *spareDescriptors) closeSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := len(s.fds) > 0
	closeAll(s.fds)
	s.fds = s.fds[:0]
	return any
}

// with calls fn. If fn fails because no descriptor is free, with closes the spare
// descriptors and calls fn again.
func (s *spareDescriptors) retry(fn func() error) error {
	return resource.Retry(fn, s.closeSpare)
}

// accept accepts the next client of a listening socket. When no descriptor is free, it
// closes the spare ones: the user of a client is known only after accept(2), and has to
// be known before a connection of another user is closed to make room. The caller calls
// fill after it has admitted or closed the client.
func (s *spareDescriptors) accept(listener int) (fd int, err error) {
	err = s.retry(func() error {
		fd, err = acceptSocket(listener)
		return err
	})
	return fd, err
}
