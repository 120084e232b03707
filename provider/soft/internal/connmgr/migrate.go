//go:build linux

package connmgr

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Migrate implements cm.TransportID. It moves the ID with its socket, its timer and its
// queued events. For a listener, it also moves the requests that the application has not
// fetched.
func (i *ID) Migrate(to cm.TransportChannel) error {
	dst, ok := to.(*Channel)
	if !ok {
		return verbs.ErrForeign
	}
	src := i.lockBoth(dst)
	defer src.unlock()
	if src == dst {
		return nil
	}
	defer dst.unlock()
	if dst.closed {
		return verbs.ErrClosed
	}
	if dst.m != src.m {
		return verbs.ErrForeign
	}
	return i.move(src, dst)
}

// lockBoth locks the channel of the ID and the channel dst. The channel with the lower
// epoll descriptor is locked first. lockBoth returns the channel of the ID.
func (i *ID) lockBoth(dst *Channel) (src *Channel) {
	for {
		src = i.ch.Load()
		first, second := src, dst
		if second.FD() < first.FD() {
			first, second = second, first
		}
		first.mu.Lock()
		if first != second {
			second.mu.Lock()
		}
		if i.ch.Load() == src {
			return src
		}
		if first != second {
			second.mu.Unlock()
		}
		first.mu.Unlock()
	}
}

func (i *ID) move(src, dst *Channel) error {
	if i.conn != nil {
		if err := i.conn.Move(dst); err != nil {
			return err
		}
	}
	if err := i.listeners.move(dst); err != nil {
		return err
	}
	src.timers.Move(&i.timer, &dst.timers)
	i.ch.Store(dst)
	for _, ev := range src.queue.extract(i) {
		if child := ev.ID.(*ID); child != i {
			if err := child.move(src, dst); err != nil {
				child.destroy(src)
				i.pendingRequests--
				i.listeners.setAccepting(true)
				continue
			}
		}
		dst.queue.push(ev)
	}
	return nil
}
