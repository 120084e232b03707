//go:build linux

package udp

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/epollset"

// A Watcher wakes the owner of a Conn when a descriptor has an event. It belongs to that
// owner.
type Watcher interface {
	// Watch makes the events of a descriptor wake the owner, which then calls OnReady of
	// h. The parameter events has the bits of epoll_ctl(2).
	Watch(fd int, events uint32, h epollset.Handler) error
	// Rewatch replaces the events for which a watched descriptor wakes the owner.
	Rewatch(fd int, events uint32)
	// Unwatch undoes Watch. It does nothing if the descriptor is not watched.
	Unwatch(fd int)
	// Signal makes the owner drive the Conn again before it sleeps.
	Signal()
}
