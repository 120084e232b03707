// Package timerheap has timers for an event loop. The loop calls Expire to fire them.
// Setting a timer allocates memory only if there are more timers than ever before.
package timerheap

import "time"

// An Owner has timers. It is an interface, because a closure or method value for each
// timer would be an allocation.
type Owner interface {
	// OnTimer is called when a timer fires, on the goroutine that owns the heap. At this
	// time the timer is not running, so OnTimer may set it again.
	OnTimer(t *Timer)
}

// A Func is the Owner of one timer.
type Func func()

// OnTimer calls the function. It implements Owner.
func (f Func) OnTimer(*Timer) { f() }

// A Timer calls Owner.OnTimer once, at its time. The user sets Owner before the first
// call of Heap.Set and leaves the other fields zero.
type Timer struct {
	Owner Owner
	// Time at which the timer fires. The owner of the heap chooses the point in time that
	// is 0.
	when time.Duration
	// Index in Heap.timers plus one. 0 if the timer is not running.
	pos int
}

// Running reports whether the timer is set and has not fired.
func (t *Timer) Running() bool { return t.pos != 0 }

// When returns the time to which the timer was last set.
func (t *Timer) When() time.Duration { return t.when }

// A Heap is a binary heap of running timers. The zero value is empty. Only one goroutine
// at a time may use a Heap.
type Heap struct {
	// In heap order: the earliest first.
	timers []*Timer
}

// Len returns the number of running timers.
func (h *Heap) Len() int { return len(h.timers) }

// Set starts the timer t, which fires at the given time. If the timer is running, Set
// changes its time.
func (h *Heap) Set(t *Timer, when time.Duration) {
	t.when = when
	if t.pos == 0 {
		h.timers = append(h.timers, t)
		t.pos = len(h.timers)
	}
	h.fix(t.pos - 1)
}

// Stop stops the timer t. It returns true if the timer was running.
func (h *Heap) Stop(t *Timer) bool {
	if t.pos == 0 {
		return false
	}
	at, last := t.pos-1, len(h.timers)-1
	h.swap(at, last)
	h.timers[last] = nil
	h.timers = h.timers[:last]
	t.pos = 0
	if at < last {
		h.fix(at)
	}
	return true
}

// Move moves the running timer t to another heap. The value of its time stays the same,
// so time 0 must be the same for both heaps. If t is not running, Move does nothing.
func (h *Heap) Move(t *Timer, to *Heap) {
	if h.Stop(t) {
		to.Set(t, t.when)
	}
}

// Next returns the time at which the first timer will fire. If there is no timer, ok is
// false.
func (h *Heap) Next() (when time.Duration, ok bool) {
	if len(h.timers) == 0 {
		return 0, false
	}
	return h.timers[0].when, true
}

// Due reports whether a timer has to fire at the given time.
func (h *Heap) Due(now time.Duration) bool {
	return len(h.timers) > 0 && h.timers[0].when <= now
}

// Expire fires all timers that are due at the given time and returns their number.
// OnTimer may set and stop timers.
//
// If OnTimer sets its timer to a past time again and again, Expire must still end. So
// Expire fires at most as many timers as were running before the call.
func (h *Heap) Expire(now time.Duration) (fired int) {
	for limit := len(h.timers); fired < limit && h.Due(now); fired++ {
		t := h.timers[0]
		h.Stop(t)
		t.Owner.OnTimer(t)
	}
	return fired
}

// fix restores the heap order after h.timers[at] has changed.
func (h *Heap) fix(at int) {
	for at > 0 && h.less(at, (at-1)/2) {
		h.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(h.timers); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == at {
			return
		}
		h.swap(at, least)
		at = least
	}
}

func (h *Heap) less(i, j int) bool { return h.timers[i].when < h.timers[j].when }

func (h *Heap) swap(i, j int) {
	h.timers[i], h.timers[j] = h.timers[j], h.timers[i]
	h.timers[i].pos, h.timers[j].pos = i+1, j+1
}
