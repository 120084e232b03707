// Package poller waits for file descriptors to become ready. It is a thin layer over
// epoll(7), for event loops that sometimes spin instead of sleeping. Once the
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
// Events are level-triggered: every Wait reports all descriptors that are ready at that
// time. An event may be wrong: a read after the event may still fail with EAGAIN.
//
// One Wait can report several events, and the handler of the first one may remove the
// registration of the second. Event then returns false for the second event, even if a
// new registration has the same descriptor number.
//
// # Who may call
//
// One goroutine owns a Poller and calls its methods. The owner may hand the Poller to
// another goroutine between two calls. Only Wake is different: any goroutine may call it
// at any time, even after Close.
//
// # Inside another loop
//
// A Poller can be part of another event loop. FD returns the epoll descriptor, which is
// readable while the Poller has an event or a wake-up. The other loop waits for this descriptor, and
// calls Wait(0) when it is readable.
//
// # Other systems
//
// The package works on Linux only. On other systems, New returns an error that matches
// errors.ErrUnsupported.
package poller
