package reactor

import (
	"math"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

const (
	// clockEvery is the number of turns without work between two readings of the clock.
	// These turns take a few microseconds in total. The number is arbitrary.
	clockEvery = 64
	// workCost is the estimated duration of one piece of work, which is added to
	// clock.pendingCost. The unit is the duration of a turn without work. The number is
	// arbitrary.
	workCost = 4
)

// A clock has the time since a loop was made. It reads the system's clock seldom,
// because that is slow.
type clock struct {
	origin time.Time     // time at which the loop was made
	now    time.Duration // time since origin when the system's clock was last read
	// pendingCost estimates how much time has passed since the system's clock was last read.
	// The unit is the duration of a turn without work.
	pendingCost uint32
	worked      bool // true if there was work since the system's clock was last read

	// timeOfTurn is the wall-clock time of the present turn in nanoseconds since 1970, or 0 if
	// nothing has asked for it.
	timeOfTurn int64

	busy     time.Duration // total time awake with work
	spinning time.Duration // total time awake without work
	slept    time.Duration // total time asleep
	longest  time.Duration // longest time between two readings while awake
}

// tick is called at the beginning of a turn of the loop. It reads the clock if
// pendingCost has reached clockEvery.
func (k *clock) tick() {
	k.timeOfTurn = 0
	if k.pendingCost++; k.pendingCost >= clockEvery {
		k.read()
	}
}

// addWork records that a turn had n pieces of work.
func (k *clock) addWork(n int) {
	k.pendingCost += uint32(n) * workCost
	k.worked = true
}

// read reads the system's clock, and returns the time since origin.
func (k *clock) read() time.Duration {
	k.advance(time.Since(k.origin))
	return k.now
}

// readTurn is read, and sets timeOfTurn with the same reading.
func (k *clock) readTurn() time.Duration {
	now := time.Now()
	k.timeOfTurn = now.UnixNano()
	k.advance(now.Sub(k.origin))
	return k.now
}

// after reads the system's clock and adds d to the time. later() limits the sum.
func (k *clock) after(d time.Duration) time.Duration { return later(k.read(), d) }

// later returns t+d. If d is negative, it returns t. If the sum is too large for a
// time.Duration, it returns the largest one, which is 292 years.
func later(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + max(0, d)
}

// advance sets k.now to the present time since origin, and counts the interval as busy
// or spinning.
func (k *clock) advance(now time.Duration) {
	gap := now - k.now
	if k.worked {
		k.busy += gap
	} else {
		k.spinning += gap
	}
	k.longest = max(k.longest, gap)
	k.now, k.pendingCost, k.worked = now, 0, false
}

// wake reads the system's clock and ends a sleep: see wakeAt.
func (k *clock) wake() { k.wakeAt(time.Since(k.origin)) }

// wakeAt sets k.now to the present time since origin, and counts the interval as sleep.
func (k *clock) wakeAt(now time.Duration) {
	k.slept += now - k.now
	k.now, k.pendingCost, k.worked = now, 0, false
}

// time returns the time of the last reading as wall-clock time.
func (k *clock) time() time.Time { return k.origin.Add(k.now) }

// ofTurn returns the wall-clock time of the present turn, in nanoseconds since 1970. The first
// call in a turn reads the system's clock.
func (k *clock) ofTurn() int64 {
	if k.timeOfTurn == 0 {
		k.timeOfTurn = time.Now().UnixNano()
	}
	return k.timeOfTurn
}

// A Timer calls a function of the application on its loop. Its methods may be called only
// on the goroutine of the loop.
type Timer struct {
	loop *Loop
	node timerheap.Timer
}

// Stop stops the timer. If the timer was not running, Stop returns false.
func (t *Timer) Stop() bool {
	t.loop.owner.check()
	return t.loop.timers.Stop(&t.node)
}

// Reset makes the timer call its function once, after d. Reset replaces an earlier time,
// and restarts a timer that has fired or was stopped.
func (t *Timer) Reset(d time.Duration) {
	t.loop.owner.check()
	t.loop.setTimer(&t.node, d)
}

// After makes the loop call fn after d, never earlier. If d is zero or less, it calls fn in its
// next turn. Other work of the loop may delay the call. When the loop ends, fn is not called any
// more. Only the goroutine of the loop may call After.
func (l *Loop) After(d time.Duration, fn func()) *Timer {
	l.owner.check()
	t := &Timer{loop: l, node: timerheap.Timer{Owner: timerheap.Func(l.measured("After", fn))}}
	t.Reset(d)
	return t
}

// setTimer makes t fire after d. It reads the clock. With the time of an earlier
// reading, t would fire too early.
func (l *Loop) setTimer(t *timerheap.Timer, d time.Duration) {
	l.timers.Set(t, l.clock.after(d))
}
