//go:build linux

package unixsock

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// SpareDescriptors are open descriptors that a device keeps in reserve. It closes them
// when the process or the system has no more descriptors (EMFILE and ENFILE of
// accept(2)). Then it can accept a client in order to refuse it, and can complete an
// admitted connection. While some of the spare descriptors are missing, no client is
// admitted.
//
// The methods may be called from any goroutine.
type SpareDescriptors struct {
	mu  sync.Mutex
	fds []int
	// listeners is the number of listening sockets, of connection management and of UD
	// queue pairs. Without them no descriptors are kept.
	listeners int
}

// SpareCount is the number of descriptors that the accepting side needs for a connection
// in addition to the socket: three, for the segment and both doorbells.
const SpareCount = 3

// AddListener counts a listener, and opens the spare descriptors.
func (s *SpareDescriptors) AddListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners++
	s.fillLocked()
}

// RemoveListener counts the end of a listener. After the last one it closes the spare
// descriptors.
func (s *SpareDescriptors) RemoveListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners--; s.listeners == 0 {
		CloseAll(s.fds)
		s.fds = nil
	}
}

// Fill opens the missing spare descriptors. It reports whether all spare descriptors are
// open now.
func (s *SpareDescriptors) Fill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fillLocked()
}

func (s *SpareDescriptors) fillLocked() bool {
	for s.listeners > 0 && len(s.fds) < SpareCount {
		fd, err := eventfd.New()
		if err != nil {
			return false
		}
		s.fds = append(s.fds, fd)
	}
	return true
}

// closeSpare closes the spare descriptors. It reports whether any were open.
func (s *SpareDescriptors) closeSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := len(s.fds) > 0
	CloseAll(s.fds)
	s.fds = s.fds[:0]
	return any
}

// Retry calls fn. If fn fails because no descriptor is free, it closes the spare
// descriptors and calls fn again.
func (s *SpareDescriptors) Retry(fn func() error) error {
	return resource.Retry(fn, s.closeSpare)
}

// Accept accepts the next client of a listening socket. If no descriptor is free, it
// closes the spare descriptors and tries again. The reason is that the user of a client
// is known only after Accept(2), and the device has to know the user before it decides
// which connection to close for the client. The caller calls fill after it has admitted
// or closed the client.
func (s *SpareDescriptors) Accept(listener int) (fd int, err error) {
	err = s.Retry(func() error {
		fd, err = Accept(listener)
		return err
	})
	return fd, err
}
