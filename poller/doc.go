// Package poller waits for file descriptors to become ready. It is a thin layer
// over epoll for event loops that also spin: it knows nothing of RDMA, calls
// nobody back and, once descriptors are registered, allocates nothing.
//
//	n, err := p.Wait(timeout)
//	for i := range n {
//		if ev, ok := p.Event(i); ok {
//			handle(ev.Data, ev.Ready)
//		}
//	}
//
// # What an event means
//
// Readiness is level-triggered: a descriptor is reported by every Wait for as
// long as it is ready. An event is a hint, and may be spurious: whoever reads
// after one must be content with EAGAIN.
//
// A batch of events can outlive what it tells of: handling one event may remove
// the registration of a later one, and a new registration may get the same slot
// and the same descriptor number. Tokens are therefore an index plus a
// generation, and Event reports such a leftover as gone, not as an event of the
// newcomer.
//
// # Who may call
//
// One goroutine owns a Poller: only it may call, except for Wake, which any
// goroutine may call at any time, even after Close. The owner may change, but
// not while a call is under way.
//
// # Inside another loop
//
// FD is an epoll descriptor, which is itself readable while the poller has
// something to report. A program with a loop of its own registers it there and
// calls Wait(0) when it is readable.
//
// Linux only. On other systems the package builds, and New returns an error
// that matches errors.ErrUnsupported.
package poller
