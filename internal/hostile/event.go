//go:build linux

package hostile

import "sync"

// An event is something that happens at most once, and for which goroutines can wait. Its
// methods may be called from any goroutine.
type event struct {
	once sync.Once
	done chan struct{} // Closed when the event has happened.
}

func newEvent() *event { return &event{done: make(chan struct{})} }

// happen marks the event as happened. Further calls do nothing.
func (e *event) happen() { e.once.Do(func() { close(e.done) }) }
