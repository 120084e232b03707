package reactor

import "time"

const (
	// clockEvery is how much may happen between two readings of the clock, in
	// empty turns: a few microseconds.
	clockEvery = 64
	// workCost is how many empty turns one piece of work counts for.
	workCost = 4
)

// A clock is a loop's idea of the time: nanoseconds since the loop was made,
// read seldom, because a reading costs as much as a turn. What passed between
// two readings is booked as work or as spinning.
type clock struct {
	origin      time.Time
	now         time.Duration // as of the last reading
	pendingCost uint32        // what happened since, in empty turns
	worked      bool          // something did

	busy     time.Duration // time awake with work
	spinning time.Duration // time awake without
	slept    time.Duration
	longest  time.Duration // between two readings while awake
}

// tick starts a turn.
func (k *clock) tick() {
	if k.pendingCost++; k.pendingCost >= clockEvery {
		k.read()
	}
}

// spend books n pieces of work.
func (k *clock) addWork(n int) {
	k.pendingCost += uint32(n) * workCost
	k.worked = true
}

// lose notes that much time may have passed: the next turn reads the clock.
func (k *clock) forceRead() { k.pendingCost = clockEvery }

// read reads the clock.
func (k *clock) read() time.Duration {
	k.advance(time.Since(k.origin))
	return k.now
}

// advance moves the clock to now, awake.
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

// wake reads the clock after a sleep that began at the last reading.
func (k *clock) wake() { k.wakeAt(time.Since(k.origin)) }

func (k *clock) wakeAt(now time.Duration) {
	k.slept += now - k.now
	k.now, k.pendingCost, k.worked = now, 0, false
}

// time is the last reading as wall-clock time.
func (k *clock) time() time.Time { return k.origin.Add(k.now) }
