//go:build linux

package poller

import "github.com/rdmaloop/rdmaloop/internal/fdevent"

// Coarsen makes p behave as on a kernel without epoll_pwait2.
func (p *Poller) Coarsen() { p.set.Coarse = true }

// A Waker is a waker without a Poller.
type Waker struct{ waker }

// NewWaker returns a Waker without a Poller.
func NewWaker() (*Waker, error) {
	event, err := fdevent.NewEvent()
	return &Waker{waker{event: event}}, err
}

// FD returns the descriptor of the eventfd.
func (w *Waker) FD() int { return w.event.FD() }

func (w *Waker) Wake()        { w.wake() }
func (w *Waker) Consume()     { w.consume() }
func (w *Waker) Close() error { return w.close() }

// BeginWake does the first half of Wake, and the returned function does the second half.
func (w *Waker) BeginWake() (finish func()) {
	if w.state.Or(wakePending) != 0 {
		return func() {}
	}
	return w.event.Signal
}
