//go:build linux

package poller

import "github.com/rdmaloop/rdmaloop/internal/eventfd"

// Milliseconds converts a timeout for kernels without epoll_pwait2.
var Milliseconds = milliseconds

// Coarsen makes p work as on kernels without epoll_pwait2.
func (p *Poller) Coarsen() { p.epoll.hasPwait2 = false }

// Waker is a waker without a poller.
type Waker struct{ waker }

// NewWaker returns a waker that is not registered in a poller.
func NewWaker() (*Waker, error) {
	w := &Waker{}
	return w, w.open()
}

// FD returns the descriptor that Wake makes readable.
func (w *Waker) FD() int { return w.fd }

// Wake, Consume and Close are the methods that a Poller uses.
func (w *Waker) Wake()        { w.wake() }
func (w *Waker) Consume()     { w.consume() }
func (w *Waker) Close() error { return w.close() }

// BeginWake does the first half of a wake. The returned function does the second half,
// which signals the eventfd.
func (w *Waker) BeginWake() (finish func()) {
	if w.state.Or(wakePending) != 0 {
		return func() {}
	}
	return func() { eventfd.Signal(w.fd) }
}
