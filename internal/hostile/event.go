//go:build linux

package hostile

import "sync"

// An event happens at most once. Any goroutine may wait for it.
type event struct {
	once sync.Once
	done chan struct{} // This channel is closed when the event happens.
}

func newEvent() *event { return &event{done: make(chan struct{})} }

// happen marks the event as happened. It may be called more than once.
func (e *event) happen() { e.once.Do(func() { close(e.done) }) }
