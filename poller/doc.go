// Package poller waits for file descriptors to become ready. It is a thin layer over
// epoll(7), for event loops that sometimes spin instead of sleeping. After the
// descriptors are registered, it does not allocate memory.
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
// Readiness is level-triggered: every Wait reports each descriptor that is ready at that
// time. An event may be spurious, so a read after an event may fail with EAGAIN.
//
// An event can be stale, because the handler of an earlier event of the same Wait may
// have removed the registration. A new registration may even have the same descriptor
// number. Event returns false for an event of a removed registration.
//
// # Who may call
//
// One goroutine owns a Poller. Only the owner may call its methods, except for Wake. Any
// goroutine may call Wake at any time, even after Close. The ownership may pass to
// another goroutine between two calls.
//
// # Inside another loop
//
// FD returns the epoll descriptor. This descriptor is readable while the Poller has an
// event. A program with its own event loop registers the epoll descriptor there, and
// calls Wait(0) when the descriptor is readable.
//
// The package works on Linux only. On other systems, New returns an error that matches
// errors.ErrUnsupported.
package poller

// The files of this package, in reading order:
//
//	event.go         readiness, tokens and events
//	epoll_unsafe.go  system calls that wait
//	epoll_linux.go   an epoll instance
//	epoll_other.go   its twin for other systems
//	waker_linux.go   wake-ups from other goroutines, by an eventfd
//	waker_other.go   its twin for other systems
//	poller.go        Poller
