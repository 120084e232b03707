// Package poller waits for file descriptors to become ready. It is a thin layer over
// epoll(7) for event loops that also spin. It knows nothing of RDMA and has no
// callbacks. Once descriptors are registered, it does not allocate.
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
// Readiness is level-triggered: every Wait reports a descriptor that is ready. An event
// may be spurious, so a read after an event may fail with EAGAIN.
//
// An event of a batch can be stale when it is handled: the handler of an earlier event
// may have removed the registration, and a new registration may have the same index and
// the same descriptor number. A token therefore consists of an index and a generation.
// Event returns false for the event of a removed registration.
//
// # Who may call
//
// One goroutine owns a Poller. Only the owner may call its methods, except for Wake,
// which any goroutine may call at any time, even after Close. The ownership may pass to
// another goroutine between two calls.
//
// # Inside another loop
//
// FD returns an epoll descriptor. It is itself readable while the poller has an event. A
// program with its own event loop registers FD there, and calls Wait(0) when it is
// readable.
//
// The package works on Linux only. On other systems it builds, and New returns an error
// that matches errors.ErrUnsupported.
package poller
