package stream

import (
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
