//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A timer calls its owner once, at or after a given time, while its shard is driven. It
// has to be initialized with init().
type timer struct {
	timerheap.Timer
	shard *shard
}

func (t *timer) init(s *shard, owner timerheap.Owner) { t.shard, t.Owner = s, owner }

// start makes the timer fire after the given time, also if it is running.
func (t *timer) start(after time.Duration) {
	t.shard.timers.Set(&t.Timer, t.shard.clock()+after)
}

// again restarts a timer that has fired. The new time counts from when the timer was
// due.
func (t *timer) again(after time.Duration) { t.shard.timers.Set(&t.Timer, t.When()+after) }

// stop stops the timer if it is running.
func (t *timer) stop() {
	if t.Running() {
		t.shard.timers.Stop(&t.Timer)
	}
}
