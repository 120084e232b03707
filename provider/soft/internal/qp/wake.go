//go:build linux

package qp

import "github.com/rdmaloop/rdmaloop/internal/fdevent"

// wakeState says whether the owner of a shard has to drive it before it sleeps, and how the
// owner finds that out.
type wakeState uint8

const (
	// wakeQuiet: the owner may sleep until one of the shard's descriptors is readable. A
	// shard begins in this state. The method signal leads to wakeSignaled, and join to
	// wakeJoined.
	wakeQuiet wakeState = iota
	// wakeSignaled: the owner has to drive the shard before it sleeps. The event is readable,
	// so the owner does not sleep. When the event is read, the next state is wakeQuiet. The
	// method join leads to wakeJoinedSignaled.
	wakeSignaled
	// wakeJoined: the owner sleeps only in compChannel.Sleep, and may do so. The method
	// signal leads to wakeJoinedSignaled, and leave to wakeQuiet.
	wakeJoined
	// wakeJoinedSignaled: the owner sleeps only in compChannel.Sleep, and has to drive the
	// shard before. Sleep looks at the state, so the event need not be readable. The next
	// call of drive leads to wakeJoined, and so does reading the event. The method leave
	// leads to wakeSignaled.
	wakeJoinedSignaled
)

// A wake keeps the owner of a shard from sleeping while there is work.
type wake struct {
	state wakeState
	// event is readable in wakeSignaled. It is not read while events is above 0, so this
	// state lasts as long.
	event  *fdevent.Event
	events int // number of queued events of channels in manual progress
}

// due reports whether the owner has to drive the shard before it sleeps.
func (w *wake) due() bool { return w.state == wakeSignaled || w.state == wakeJoinedSignaled }

// joined reports whether the owner sleeps only in compChannel.Sleep.
func (w *wake) joined() bool { return w.state == wakeJoined || w.state == wakeJoinedSignaled }

// signal makes the owner drive the shard before it sleeps.
func (w *wake) signal() {
	switch w.state {
	case wakeQuiet:
		w.state = wakeSignaled
		w.event.Signal()
	case wakeJoined:
		w.state = wakeJoinedSignaled
	}
}

// driven is called when the owner drives the shard.
func (w *wake) driven() {
	if w.state == wakeJoinedSignaled {
		w.state = wakeJoined
	}
}

// onReady is called when the event is readable.
func (w *wake) onReady() {
	if w.events > 0 {
		return
	}
	w.event.Drain()
	switch w.state {
	case wakeSignaled:
		w.state = wakeQuiet
	case wakeJoinedSignaled:
		w.state = wakeJoined
	}
}

// join is called when the owner begins to sleep only in compChannel.Sleep.
func (w *wake) join() {
	switch w.state {
	case wakeQuiet:
		w.state = wakeJoined
	case wakeSignaled:
		w.state = wakeJoinedSignaled
	}
}

// leave undoes join. The next owner may wait for the shard's descriptor, so the event
// becomes readable if there is work.
func (w *wake) leave() {
	due := w.due()
	w.state = wakeQuiet
	if due {
		w.signal()
	}
}
