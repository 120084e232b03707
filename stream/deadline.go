package stream

import (
	"sync"
	"time"
)

// A deadline is a time until which calls may block. Any goroutine may call its methods.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer   // timer that closes passed, or nil
	passed chan struct{} // closed when the deadline has passed
	notify func()        // called when the deadline has passed, on a goroutine of its own
}

func newDeadline(notify func()) deadline {
	return deadline{passed: make(chan struct{}), notify: notify}
}

// set replaces the deadline. The zero time means no deadline.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // The timer has fired, and its function closes the channel.
	}
	d.timer = nil
	if isClosed(d.passed) {
		d.passed = make(chan struct{})
	}
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(d.passed)
	default:
		passed := d.passed
		d.timer = time.AfterFunc(left, func() {
			close(passed)
			d.notify()
		})
	}
}

// wait returns a channel that is closed when the present deadline has passed.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// isClosed reports whether the channel is closed. No value is ever sent to the channel.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
