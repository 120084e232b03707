//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A timer calls a function once, at or after a given time, while its shard is driven.
// The method init has to be called before the other methods.
type timer struct {
	timerheap.Timer
	shard *shard
}

func (t *timer) init(s *shard, fire func()) { t.shard, t.Fire = s, fire }

// start makes the timer fire after the given time, counted from now. If the timer is
// running, start replaces its time.
func (t *timer) start(after time.Duration) {
	t.shard.timers.Set(&t.Timer, t.shard.clock()+after)
}

// again restarts a timer that has fired. The new time is counted from the time at which
// the timer was due.
func (t *timer) again(after time.Duration) { t.shard.timers.Set(&t.Timer, t.When()+after) }

// stop stops the timer. It does nothing if the timer is not running.
func (t *timer) stop() {
	if t.Running() {
		t.shard.timers.Stop(&t.Timer)
	}
}
