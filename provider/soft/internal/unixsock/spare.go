//go:build linux

package unixsock

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// A SpareDescriptors has open descriptors that a device keeps in reserve. It closes them
// when the process or the system has reached its limit of descriptors (EMFILE and ENFILE
// of accept(2)). The device can then still accept a client in order to refuse it, or
// complete the connection of a client that it has admitted before. While spare
// descriptors are missing, the device admits no new client.
type SpareDescriptors struct {
	mu  sync.Mutex
	fds []int
	// listeners is the number of listening sockets, both of connection management and of
	// UD queue pairs. If there are none, no spare descriptors are kept.
	listeners int
}

// SpareCount is the number of spare descriptors. It is the number that the accepting side
// needs to complete one connection, beside the accepted socket: one for the segment and
// two for the doorbells.
const SpareCount = 3

// AddListener counts a listener, and opens the spare descriptors.
func (s *SpareDescriptors) AddListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners++
	s.fillLocked()
}

// RemoveListener counts one listener less. Without listeners it closes the spare
// descriptors.
func (s *SpareDescriptors) RemoveListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners--; s.listeners == 0 {
		CloseAll(s.fds)
		s.fds = nil
	}
}

// Fill opens the missing spare descriptors. It reports whether all of them are open now.
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

// closeSpare closes the spare descriptors. It returns false if none was open.
func (s *SpareDescriptors) closeSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := len(s.fds) > 0
	CloseAll(s.fds)
	s.fds = s.fds[:0]
	return any
}

// Retry calls fn. If fn fails because no descriptor is free, Retry closes the spare
// descriptors and calls fn again.
func (s *SpareDescriptors) Retry(fn func() error) error {
	return resource.Retry(fn, s.closeSpare)
}

// Accept accepts the next client of a listening socket. If no descriptor is free, Accept
// closes the spare descriptors and tries again. The device can not leave the client
// waiting instead: only an accepted socket tells to which user the client belongs, and
// the device needs the user to decide which connection it closes to make room. When the
// caller has admitted or closed the client, it calls Fill.
func (s *SpareDescriptors) Accept(listener int) (fd int, err error) {
	err = s.Retry(func() error {
		fd, err = Accept(listener)
		return err
	})
	return fd, err
}
