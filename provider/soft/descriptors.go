//go:build linux

package soft

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// spareDescriptors are open descriptors that a device keeps so that it can close them.
// They make room to accept a client that has to be refused, and to complete a
// connection that was admitted, when the process or the system has no more (EMFILE and
// ENFILE of accept(2)). While some of them are missing nobody is admitted.
//
// It may be used from any goroutine.
type spareDescriptors struct {
	mu  sync.Mutex
	fds []int
	// listeners is how many need them: without any there are none.
	listeners int
}

// spareCount is what the accepting side needs besides the socket to complete a
// connection: the segment and both bells.
const spareCount = 3

// keep has the spare descriptors kept for one more listener.
func (s *spareDescriptors) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners++
	s.fillLocked()
}

// drop takes keep back.
func (s *spareDescriptors) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners--; s.listeners == 0 {
		closeAll(s.fds)
		s.fds = nil
	}
}

// fill opens those that are missing, and reports whether all are there now.
func (s *spareDescriptors) fill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fillLocked()
}

func (s *spareDescriptors) fillLocked() bool {
	for s.listeners > 0 && len(s.fds) < spareCount {
		fd, err := newEventfd()
		if err != nil {
			return false
		}
		s.fds = append(s.fds, fd)
	}
	return true
}

// spend closes those that are there, and reports whether there were any.
func (s *spareDescriptors) spend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := len(s.fds) > 0
	closeAll(s.fds)
	s.fds = s.fds[:0]
	return any
}

// with calls fn, and again after the spare descriptors were closed if it failed for
// want of descriptors.
func (s *spareDescriptors) with(fn func() error) error {
	err := fn()
	if outOfDescriptors(err) && s.spend() {
		err = fn()
	}
	return err
}

// outOfDescriptors reports whether the process (EMFILE) or the system (ENFILE) has no
// more descriptors.
func outOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
