//go:build linux

package qp

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A Timer calls its owner once, at a given time or later, while its shard is driven. It
// must be initialized with Init().
type Timer struct {
	timerheap.Timer
	shard *Shard
}

// Init must be called before the first Start. It sets the shard and the owner.
func (t *Timer) Init(s *Shard, owner timerheap.Owner) { t.shard, t.Owner = s, owner }

// Start makes the timer fire after the given time. A running timer gets this new time.
func (t *Timer) Start(after time.Duration) {
	t.shard.Timers.Set(&t.Timer, t.shard.Clock()+after)
}

// Again restarts a timer that has fired. The time begins when the timer was due, not
// when it has fired.
func (t *Timer) Again(after time.Duration) { t.shard.Timers.Set(&t.Timer, t.When()+after) }

// Stop stops the timer if it runs.
func (t *Timer) Stop() {
	if t.Running() {
		t.shard.Timers.Stop(&t.Timer)
	}
}
