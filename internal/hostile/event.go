//go:build linux

package hostile

import "sync"

// An event happens at most once. Goroutines can wait for it. Any goroutine may call its
// methods.
type event struct {
	once sync.Once
	done chan struct{} // Closed when the event has happened.
}

func newEvent() *event { return &event{done: make(chan struct{})} }

// happen marks the event as happened. It may be called more than once.
func (e *event) happen() { e.once.Do(func() { close(e.done) }) }
