//go:build linux

package poller

import "github.com/rdmaloop/rdmaloop/internal/eventfd"

// Milliseconds converts a timeout to milliseconds, for kernels without epoll_pwait2.
var Milliseconds = milliseconds

// Coarsen makes p behave as without epoll_pwait2, with a resolution of 1 ms.
func (p *Poller) Coarsen() { p.epoll.hasPwait2 = false }

// A Waker is a waker that belongs to no Poller.
type Waker struct{ waker }

// NewWaker returns a Waker that is not registered in an epoll instance.
func NewWaker() (*Waker, error) {
	w := &Waker{}
	return w, w.open()
}

// FD returns the descriptor, which Wake makes readable.
func (w *Waker) FD() int { return w.fd }

// Wake, Consume and Close call the waker's methods of the same names.
func (w *Waker) Wake()        { w.wake() }
func (w *Waker) Consume()     { w.consume() }
func (w *Waker) Close() error { return w.close() }

// BeginWake does the first half of Wake: it sets wakePending. The returned function does
// the rest: it signals the eventfd.
func (w *Waker) BeginWake() (finish func()) {
	if w.state.Or(wakePending) != 0 {
		return func() {}
	}
	return func() { eventfd.Signal(w.fd) }
}
