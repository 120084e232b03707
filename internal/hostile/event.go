//go:build linux

package hostile

import "sync"

// An event happens once. Its methods may be called from any goroutine.
type event struct {
	once sync.Once
	done chan struct{} // closed when it has happened
}

func newEvent() *event { return &event{done: make(chan struct{})} }

// happen does nothing the second time.
func (e *event) happen() { e.once.Do(func() { close(e.done) }) }
