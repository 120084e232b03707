//go:build linux

package udp

import "github.com/rdmaloop/rdmaloop/internal/fdevent"

// A Watcher wakes the owner of a Conn when a descriptor has an event. Only the owner
// calls its methods.
type Watcher interface {
	// Watch makes the events of a descriptor wake the owner. The owner then calls
	// h.OnReady. The parameter events has the bits of epoll_ctl(2).
	Watch(fd int, events uint32, h fdevent.Handler) error
	// Rewatch replaces the events of a watched descriptor.
	Rewatch(fd int, events uint32)
	// Unwatch undoes Watch. It does nothing if the descriptor is not watched.
	Unwatch(fd int)
	// Signal makes the owner call Poll before it sleeps.
	Signal()
	// InUse is called when the first route was opened, and when the last one was closed. In
	// between, the owner calls Poll.
	InUse(bool)
	// Unused makes the owner call CloseUnused after some time.
	Unused()
}
