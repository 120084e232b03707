//go:build linux

package udp

// A Watcher wakes the owner of a Conn when a descriptor has an event. It belongs to that
// owner.
type Watcher interface {
	// Watch makes the events of a descriptor wake the owner. The parameter events has
	// the bits of epoll_ctl(2). After an event of the descriptor, the owner calls
	// OnReady of the handler h.
	Watch(fd int, events uint32, h EventHandler) error
	// Rewatch replaces the events for which a watched descriptor wakes the owner.
	Rewatch(fd int, events uint32)
	// Unwatch undoes Watch. It does nothing if the descriptor is not watched.
	Unwatch(fd int)
	// Signal makes the owner drive the Conn again before it sleeps.
	Signal()
}

// An EventHandler handles events of a descriptor that a Watcher watches.
type EventHandler interface {
	// OnReady is called by the owner of the Watcher. The parameter events has those bits
	// of epoll_ctl(2) that have occurred.
	OnReady(fd int, events uint32)
}
