package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A Timer calls a function of the application on its loop. Its methods may be called only
// on the goroutine of the loop.
type Timer struct {
	loop *Loop
	node timerheap.Timer
}

// Stop stops the timer. If the timer was not running, Stop returns false.
func (t *Timer) Stop() bool { return t.loop.timers.Stop(&t.node) }

// Reset makes the timer call its function once, after d. Reset replaces an earlier time,
// and restarts a timer that has fired or was stopped.
func (t *Timer) Reset(d time.Duration) { t.loop.setTimer(&t.node, d) }

// After makes the loop call fn after d, never earlier. Other work of the loop may delay
// it. Only the goroutine of the loop may call After.
func (l *Loop) After(d time.Duration, fn func()) *Timer {
	t := &Timer{loop: l, node: timerheap.Timer{Owner: timerheap.Func(fn)}}
	t.Reset(d)
	return t
}

// setTimer makes t fire after d. It reads the clock. With the time of an earlier
// reading, t would fire too early.
func (l *Loop) setTimer(t *timerheap.Timer, d time.Duration) {
	l.timers.Set(t, l.clock.after(d))
}
