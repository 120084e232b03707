//go:build linux

package poller

import "github.com/rdmaloop/rdmaloop/internal/eventfd"

// Coarsen makes p behave as on a kernel without epoll_pwait2.
func (p *Poller) Coarsen() { p.epoll.waiter.Coarse = true }

// A Waker is a waker without a Poller.
type Waker struct{ waker }

// NewWaker returns a Waker without a Poller.
func NewWaker() (*Waker, error) {
	w := &Waker{}
	return w, w.open()
}

// FD returns the descriptor of the eventfd.
func (w *Waker) FD() int { return w.fd }

func (w *Waker) Wake()        { w.wake() }
func (w *Waker) Consume()     { w.consume() }
func (w *Waker) Close() error { return w.close() }

// BeginWake does the first half of Wake, and the returned function does the second half.
func (w *Waker) BeginWake() (finish func()) {
	if w.state.Or(wakePending) != 0 {
		return func() {}
	}
	return func() { eventfd.Signal(w.fd) }
}
