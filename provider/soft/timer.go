//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A timer fires once on its shard, while the shard is driven. It is usable after init.
type timer struct {
	timerheap.Timer
	shard *shard
}

func (t *timer) init(s *shard, fire func()) { t.shard, t.Fire = s, fire }

// start makes the timer fire after a time from now. If it is running, start replaces its
// time.
func (t *timer) start(after time.Duration) {
	t.shard.timers.Set(&t.Timer, time.Duration(t.shard.clock())+after)
}

// again starts a timer that has fired, so that it fires a time after it was due.
func (t *timer) again(after time.Duration) { t.shard.timers.Set(&t.Timer, t.When()+after) }

func (t *timer) stop() { t.shard.timers.Stop(&t.Timer) }
