//go:build linux

package unixsock

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// A SpareDescriptors keeps some descriptors open in reserve. When the process has no
// free descriptor (EMFILE, ENFILE), it closes them. So the device can still refuse a
// client or complete a connection. The device admits no new client until the reserve is
// full again.
type SpareDescriptors struct {
	mu     sync.Mutex
	spares []*fdevent.Event
	// Number of listening sockets of connection management and of UD queue pairs. If it
	// is 0, no spare descriptors are kept.
	listeners int
}

// SpareCount is the number of spare descriptors: one for the segment and two for the
// doorbells of a connection.
const SpareCount = 3

// AddListener counts a listener, and opens missing spare descriptors.
func (s *SpareDescriptors) AddListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners++
	s.fillLocked()
}

// RemoveListener undoes AddListener. For the last listener it closes the spare
// descriptors.
func (s *SpareDescriptors) RemoveListener() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners--; s.listeners == 0 {
		s.closeLocked()
	}
}

// Fill opens the missing spare descriptors, and reports whether all are open.
func (s *SpareDescriptors) Fill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fillLocked()
}

func (s *SpareDescriptors) fillLocked() bool {
	for s.listeners > 0 && len(s.spares) < SpareCount {
		spare, err := fdevent.NewEvent()
		if err != nil {
			return false
		}
		s.spares = append(s.spares, spare)
	}
	return true
}

// closeSpare closes the spare descriptors. It returns false if none was open.
func (s *SpareDescriptors) closeSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := len(s.spares) > 0
	s.closeLocked()
	return any
}

func (s *SpareDescriptors) closeLocked() {
	for _, spare := range s.spares {
		_ = spare.Close()
	}
	s.spares = s.spares[:0]
}

// Retry calls fn. If fn fails because no descriptor is free, Retry closes the spare
// descriptors and calls fn again.
func (s *SpareDescriptors) Retry(fn func() error) error {
	return resource.Retry(fn, s.closeSpare)
}

// Accept accepts the next client. If no descriptor is free, it uses a spare one. The
// caller admits or closes the client, and then calls Fill.
func (s *SpareDescriptors) Accept(listener int) (fd int, err error) {
	err = s.Retry(func() error {
		fd, err = Accept(listener)
		return err
	})
	return fd, err
}
