//go:build linux

package poller

// Milliseconds is the rounding for kernels without epoll_pwait2.
var Milliseconds = milliseconds

// Coarsen makes p do without epoll_pwait2, as on kernels that lack it.
func (p *Poller) Coarsen() { p.epoll.fine = false }

// Waker is the waker alone.
type Waker struct{ waker }

// NewWaker returns a waker that no poller watches.
func NewWaker() (*Waker, error) {
	w := &Waker{}
	return w, w.bell.open()
}

// FD returns the descriptor that Wake makes readable.
func (w *Waker) FD() int { return w.bell.fd }

// Wake, Consume and Close are the three that a Poller calls.
func (w *Waker) Wake()        { w.wake() }
func (w *Waker) Consume()     { w.consume() }
func (w *Waker) Close() error { return w.close() }

// BeginWake does the first half of a wake, up to the ring, and returns the
// second half.
func (w *Waker) BeginWake() (finish func()) {
	if w.state.Or(wakePending) != 0 {
		return func() {}
	}
	return w.bell.ring
}
