package poller

import "sync/atomic"

// A waker makes its bell's descriptor readable on behalf of any goroutine, with
// one system call for however many wakes the owner sees at once.
//
// Whoever turns wakePending on rings, and nobody else until the owner has
// silenced the bell and turned it off again. So there is at most one ring under
// way, and a pending wake always ends in a readable descriptor.
type waker struct {
	state atomic.Uint32
	bell  bell
}

const (
	wakePending uint32 = 1 << iota
	wakeClosed
)

func (w *waker) wake() {
	if w.state.Or(wakePending) == 0 {
		w.bell.ring()
	}
}

// consume is called by the owner when the bell has rung. Silencing comes first:
// in the other order, a ring between the two would be silenced while it stays
// pending, and no wake would ring ever after.
func (w *waker) consume() {
	w.bell.silence()
	w.state.And(^wakePending)
}

// close waits for a ring that is under way: after that nobody will write to the
// descriptor, whose number may soon be a stranger's.
func (w *waker) close() error {
	if w.state.Or(wakeClosed)&wakePending != 0 {
		w.bell.awaitRing()
	}
	return w.bell.close()
}
