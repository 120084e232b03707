//go:build linux

package soft

import (
	"container/heap"
	"time"
)

// A deadline is a timer of a channel. When the time has come, the channel calls fire
// once, with its lock held.
type deadline struct {
	at    time.Time
	fire  func(now time.Time)
	index int // position in the heap, counted from 1; 0 if the deadline is not running
}

// deadlines is a heap of the running deadlines of a channel, the earliest first.
type deadlines []*deadline

// start sets a deadline. The deadline may be running.
func (h *deadlines) start(d *deadline, at time.Time) {
	h.stop(d)
	d.at = at
	heap.Push(h, d)
}

// stop stops a deadline. It does nothing if the deadline is not running.
func (h *deadlines) stop(d *deadline) {
	if d.index > 0 {
		heap.Remove(h, d.index-1)
	}
}

// move moves a running deadline to another channel.
func (h *deadlines) move(d *deadline, to *deadlines) {
	if d.index > 0 {
		h.stop(d)
		to.start(d, d.at)
	}
}

// due removes and returns the earliest deadline if its time has come, or returns nil.
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

// Len, Less, Swap, Push and Pop implement heap.Interface.

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
