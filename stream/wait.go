package stream

import (
	"net"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

// A waiter lets one goroutine wait for an event of a Conn. Only the owner of the loop
// uses it.
type waiter struct {
	*turns.Waiter
	ready   func() bool     // reports whether the goroutine can stop waiting
	timeout <-chan struct{} // closed when the deadline of the goroutine passes
}

// wait waits until the event of w or the deadline d. It first polls the loop.
func (c *Conn) wait(w *waiter, d *deadline) {
	w.timeout = d.wait()
	if c.loop.Spin(w.ready, c.spin.budget) {
		c.spin.succeeded()
		return
	}
	slept := time.Now()
	c.loop.Sleep(w.Waiter, w.timeout)
	c.spin.failed(time.Since(slept))
}

// A spinTime decides how long a goroutine polls before it sleeps. Polling is useful if
// the event mostly arrives meanwhile. So each poll without success halves the time. When
// a sleep was shorter than the limit, the time becomes the limit again.
type spinTime struct {
	limit  time.Duration // NetworkConfig.SpinBudget
	budget time.Duration // time for the next polling
}

// minSpin is the shortest useful time for polling. It is twice a round trip of 64 bytes
// on the local path; see docs/performance.md.
const minSpin = time.Microsecond

// succeeded is called when polling has ended with success.
func (s *spinTime) succeeded() { s.budget = s.limit }

// failed is called after polling without success, and after the sleep that followed. The
// parameter slept is the duration of that sleep.
func (s *spinTime) failed(slept time.Duration) {
	switch s.budget /= 2; {
	case slept < s.limit:
		s.budget = s.limit
	case s.budget < minSpin:
		s.budget = 0
	}
}

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
	if turns.IsClosed(d.passed) {
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

// recheck makes a waiting goroutine check its deadline.
func (c *Conn) recheck(w *waiter) {
	c.loop.Lock()
	defer c.loop.Unlock()
	c.loop.Recheck(w.Waiter)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline with the same time.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the time at which present and later calls of Read fail with an
// error that matches os.ErrDeadlineExceeded. The zero time means no deadline. After Close
// the error matches net.ErrClosed.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readDeadline, &c.readable, t)
}

// SetWriteDeadline is SetReadDeadline for Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeDeadline, &c.writable, t)
}

func (c *Conn) setDeadline(d *deadline, w *waiter, t time.Time) error {
	c.loop.Lock()
	defer c.loop.Unlock()
	if c.state.closed() {
		return c.opError("set", net.ErrClosed)
	}
	d.set(t)
	c.loop.Recheck(w.Waiter)
	return nil
}
