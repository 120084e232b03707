package reactor

import (
	"math"
	"time"
)

const (
	// clockEvery is the number of empty turns (turns of the loop without work) after
	// which the clock is read. A turn with work counts as several empty turns, see
	// workCost. 64 empty turns take a few microseconds. The number is arbitrary.
	clockEvery = 64
	// workCost is the estimated duration of one piece of work, measured in empty turns.
	// The number is arbitrary.
	workCost = 4
)

// A clock has the time of a loop: the duration since the loop was made. The clock seldom
// reads the system's clock, because one reading takes as long as an empty turn. The time
// between two readings is added to the field busy if the loop had work in this time, and
// otherwise to the field spinning.
type clock struct {
	origin      time.Time     // time at which the loop was made
	now         time.Duration // time of the last reading, since origin
	pendingCost uint32        // estimated time since the last reading, in empty turns
	worked      bool          // whether there was work since the last reading

	busy     time.Duration // total time awake with work
	spinning time.Duration // total time awake without work
	slept    time.Duration // total time asleep
	longest  time.Duration // longest time between two readings while awake
}

// tick is called at the beginning of a turn of the loop. It reads the clock if
// pendingCost has reached clockEvery.
func (k *clock) tick() {
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

// after reads the system's clock, and returns the time that is d later: see later.
func (k *clock) after(d time.Duration) time.Duration { return later(k.read(), d) }

// later returns the time that is d after t. If d is negative, the result is t. If the sum
// is too large for a time.Duration, the result is the largest time.Duration, which a loop
// does not reach within 292 years.
func later(t, d time.Duration) time.Duration {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + max(0, d)
}

// advance is called at the end of an interval in which the loop was awake. The interval
// began at the last reading of the clock and ends at the time in the parameter now.
// advance adds the duration of the interval to the field busy or to the field spinning,
// and sets the clock to the end of the interval.
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

// wake is called after a sleep of the loop. It reads the system's clock and adds the
// duration of the sleep to the field slept. The loop reads the clock just before a
// sleep, so the sleep began at the last reading.
func (k *clock) wake() { k.wakeAt(time.Since(k.origin)) }

// wakeAt ends a sleep that began at the last reading of the clock and ends at the time
// in the parameter now. It adds the duration of the sleep to the field slept, and sets
// the clock to the end of the sleep.
func (k *clock) wakeAt(now time.Duration) {
	k.slept += now - k.now
	k.now, k.pendingCost, k.worked = now, 0, false
}

// time returns the time of the last reading as wall-clock time.
func (k *clock) time() time.Time { return k.origin.Add(k.now) }
