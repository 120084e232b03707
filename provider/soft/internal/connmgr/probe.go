//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// A Probe lets the tests of the transports look into a channel. Nothing else uses it.
type Probe struct{ ch *Channel }

// Probe returns the Probe of the channel.
func (ch *Channel) Probe() Probe { return Probe{ch: ch} }

// SetClock replaces the clock of the timers.
func (p Probe) SetClock(clock func() time.Time) { p.ch.clock = clock }

// Clock returns the clock of the timers.
func (p Probe) Clock() func() time.Time { return p.ch.clock }

// Drive does the work that is due, and fetches no event.
func (p Probe) Drive() (err error) {
	p.Locked(func() { err = p.ch.drive() })
	return err
}

// Locked calls f with the channel locked.
func (p Probe) Locked(f func()) {
	p.ch.mu.Lock()
	defer p.ch.unlock()
	f()
}

// Queued returns the events that the application has not fetched.
func (p Probe) Queued() (events []cm.TransportEvent) {
	for _, ev := range p.ch.queue.events[p.ch.queue.head:] {
		if !ev.ID.(*ID).dropped {
			events = append(events, ev)
		}
	}
	return events
}

// Timers returns the number of timers that are running, and the time at which the first
// one is due, since Config.Start.
func (p Probe) Timers() (running int, next time.Duration) {
	next, _ = p.ch.timers.Next()
	return p.ch.timers.Len(), next
}

// Handler returns the handler of a descriptor that the channel watches, or nil.
func (p Probe) Handler(fd int) fdevent.Handler { return p.ch.epoll.Handler(fd) }

// Unfetched returns the number of requests to a listening ID that the application has not
// fetched.
func (p Probe) Unfetched(id *ID) int { return id.pendingRequests }

// Conn returns the connection of an ID, or nil.
func (p Probe) Conn(id *ID) Conn { return id.conn }
