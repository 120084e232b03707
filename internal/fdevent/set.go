// Package fdevent waits for file descriptors, and has descriptors that end such a wait.
//
//   - A Set is an epoll instance. It keeps a value for each descriptor, and tells events
//     of a removed descriptor from events of a new one. A Dispatcher is a Set of
//     handlers.
//   - An Event becomes readable by a call, and a Timer at a time.
//   - Readable waits for one descriptor until a context is done.
//
// Timeouts have a resolution of 1 ns; see Set.Wait. Unless a comment says otherwise, an
// object of this package belongs to one goroutine, and errors are *os.SyscallError. Close
// of a nil pointer does nothing.
//
// The package works on Linux only. On other systems, errors match errors.ErrUnsupported.
package fdevent

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// A Token identifies a descriptor of a Set from Add until Remove. It is never zero, and
// not used again for 1<<32 - 2 uses of its slot; see package slots.
type Token uint64

// A Set is an epoll instance whose descriptors have values of type T. Once the
// descriptors are in the set, it does not allocate memory.
//
// The kernel keeps a Token for each descriptor. It could not keep the value, because the
// garbage collector does not look into the kernel.
type Set[T any] struct {
	epoll   // has the methods that need no value: FD, Attach, Wait, Token, Events and others
	entries slots.Table[Entry[T]]
}

// An Entry is a descriptor in a Set, with its value.
type Entry[T any] struct {
	FD    int
	Value T
}

// NewSet returns an empty set. One Wait reports at most maxEvents events.
func NewSet[T any](maxEvents int) (*Set[T], error) {
	s := new(Set[T])
	if err := s.open(maxEvents); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the epoll descriptor, but not the descriptors in the set.
func (s *Set[T]) Close() error {
	if s == nil {
		return nil
	}
	return s.close()
}

// Add adds the descriptor fd. The parameter events has the bits of epoll_ctl(2). Call
// Remove before you close fd. Otherwise the kernel may go on reporting fd.
func (s *Set[T]) Add(fd int, events uint32, value T) (Token, error) {
	h := s.entries.Put(Entry[T]{FD: fd, Value: value})
	if err := s.add(fd, events, Token(h)); err != nil {
		s.entries.Remove(h)
		return 0, err
	}
	return Token(h), nil
}

// Modify replaces the events of a descriptor. If the token is not valid, ok is false.
func (s *Set[T]) Modify(t Token, events uint32) (ok bool, err error) {
	e, ok := s.Get(t)
	if !ok {
		return false, nil
	}
	return true, s.modify(e.FD, events, t)
}

// Remove removes a descriptor, even if it returns an error. If the token is not valid, ok
// is false.
func (s *Set[T]) Remove(t Token) (ok bool, err error) {
	e, ok := s.entries.Remove(slots.Handle(t))
	if !ok {
		return false, nil
	}
	return true, s.remove(e.FD)
}

// Get returns the entry of a token. If the token is not valid, ok is false. The pointer
// is valid until Add or Remove.
func (s *Set[T]) Get(t Token) (e *Entry[T], ok bool) { return s.entries.Get(slots.Handle(t)) }

// A Clock fires the timers of a simulated host.
type Clock interface {
	// SetTimer makes the clock call t.Expire once, after the given time or at once. It
	// replaces an earlier time.
	SetTimer(t *Timer, after time.Duration)
	// StopTimer keeps the clock from calling t.Expire.
	StopTimer(t *Timer)
}
