//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A timer calls its owner once, at a given time or later, while its shard is driven. It
// must be initialized with init().
type timer struct {
	timerheap.Timer
	shard *shard
}

func (t *timer) init(s *shard, owner timerheap.Owner) { t.shard, t.Owner = s, owner }

// start makes the timer fire after the given time. A running timer gets this new time.
func (t *timer) start(after time.Duration) {
	t.shard.timers.Set(&t.Timer, t.shard.clock()+after)
}

// again restarts a timer that has fired. The time begins when the timer was due, not
// when it has fired.
func (t *timer) again(after time.Duration) { t.shard.timers.Set(&t.Timer, t.When()+after) }

func (t *timer) stop() {
	if t.Running() {
		t.shard.timers.Stop(&t.Timer)
	}
}
