//go:build linux

package soft

import "time"

// A timer fires once on its shard, in the course of driving it. The zero value
// is not usable; see init.
type timer struct {
	shard *shard
	fire  func()
	when  int64 // on the device's clock
	index int   // in the shard's heap; -1 when not running
}

func (t *timer) init(s *shard, fire func()) { t.shard, t.fire, t.index = s, fire, -1 }

func (t *timer) running() bool { return t.index >= 0 }

// start sets the timer, anew if it is running.
func (t *timer) start(after time.Duration) {
	t.stop()
	t.when = t.shard.clock() + int64(after)
	t.shard.timers.push(t)
}

// again starts a timer that has fired, so long after it was due.
func (t *timer) again(after time.Duration) {
	t.when += int64(after)
	t.shard.timers.push(t)
}

func (t *timer) stop() {
	if t.running() {
		t.shard.timers.remove(t.index)
	}
}

// timerHeap is a binary heap of running timers, the next one first.
type timerHeap []*timer

func (h *timerHeap) push(t *timer) {
	t.index = len(*h)
	*h = append(*h, t)
	h.up(t.index)
}

func (h *timerHeap) remove(i int) {
	last := len(*h) - 1
	h.swap(i, last)
	(*h)[last].index = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].when <= h[i].when {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].when < h[child].when {
			child++
		}
		if h[i].when <= h[child].when {
			return
		}
		h.swap(i, child)
		i = child
	}
}
