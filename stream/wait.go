package stream

import (
	"time"

	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

// A waiter lets one goroutine wait for an event of a Conn. Only the owner of the loop
// uses it.
type waiter struct {
	*turns.Waiter
	ready   func() bool     // reports whether the goroutine has to wait no longer
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

// A spinTime decides how long a goroutine polls before it sleeps. Polling is good if it
// mostly ends with success. So the time is halved after each failure, and it is the limit
// again when a sleep was shorter than the limit.
type spinTime struct {
	limit  time.Duration // NetworkConfig.SpinBudget
	budget time.Duration // time for the next polling
}

// minSpin is the shortest useful time for polling: about a round trip on the local path.
const minSpin = time.Microsecond

// succeeded is called when polling has ended with success.
func (s *spinTime) succeeded() { s.budget = s.limit }

// failed is called after polling without success, when the sleep that followed has taken
// the time slept.
func (s *spinTime) failed(slept time.Duration) {
	switch s.budget /= 2; {
	case slept < s.limit:
		s.budget = s.limit
	case s.budget < minSpin:
		s.budget = 0
	}
}
