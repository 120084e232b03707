//go:build linux

package soft

import (
	"container/heap"
	"time"
)

// A deadline calls fire once, under the channel's lock, when its time has come.
type deadline struct {
	at    time.Time
	fire  func(now time.Time)
	index int // in the heap, from 1; 0 when it is not running
}

// deadlines are the running ones of a channel, the next one first.
type deadlines []*deadline

// start sets a deadline, running or not.
func (h *deadlines) start(d *deadline, at time.Time) {
	h.stop(d)
	d.at = at
	heap.Push(h, d)
}

// stop is a no-op for a deadline that is not running.
func (h *deadlines) stop(d *deadline) {
	if d.index > 0 {
		heap.Remove(h, d.index-1)
	}
}

// move takes a deadline over to those of another channel.
func (h *deadlines) move(d *deadline, to *deadlines) {
	if d.index > 0 {
		h.stop(d)
		to.start(d, d.at)
	}
}

// due takes the next deadline that has passed, or returns nil.
func (h *deadlines) due(now time.Time) *deadline {
	if at, ok := h.next(); !ok || at.After(now) {
		return nil
	}
	return heap.Pop(h).(*deadline)
}

func (h *deadlines) next() (at time.Time, ok bool) {
	if len(*h) == 0 {
		return time.Time{}, false
	}
	return (*h)[0].at, true
}

// The methods of heap.Interface.

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *deadlines) Push(x any) {
	d := x.(*deadline)
	*h = append(*h, d)
	d.index = len(*h)
}

func (h *deadlines) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	d.index = 0
	return d
}
