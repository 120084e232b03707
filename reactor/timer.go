package reactor

import "time"

// A timer calls fire once, at the time when. The zero value with fire set is ready for
// timers.set. A timer is a field of the object that uses it, so that setting and stopping
// it allocate nothing.
type timer struct {
	fire func()
	when time.Duration // in the loop's time
	pos  int           // index in timers.heap plus one; 0 means that the timer is not set
}

// timers is a binary heap of timers; the timer that fires first is heap[0].
type timers struct {
	heap []*timer
}

// set makes t fire at when. If t was set before, set replaces its time.
func (ts *timers) set(t *timer, when time.Duration) {
	t.when = when
	if t.pos == 0 {
		ts.heap = append(ts.heap, t)
		t.pos = len(ts.heap)
	}
	ts.fix(t.pos - 1)
}

// stop removes t, and reports whether it was set.
func (ts *timers) stop(t *timer) bool {
	if t.pos == 0 {
		return false
	}
	at, last := t.pos-1, len(ts.heap)-1
	ts.swap(at, last)
	ts.heap[last] = nil
	ts.heap = ts.heap[:last]
	t.pos = 0
	if at < last {
		ts.fix(at)
	}
	return true
}

// next returns the time at which the first timer fires. ok is false if there is none.
func (ts *timers) next() (when time.Duration, ok bool) {
	if len(ts.heap) == 0 {
		return 0, false
	}
	return ts.heap[0].when, true
}

// due reports whether a timer is due at now.
func (ts *timers) due(now time.Duration) bool {
	return len(ts.heap) > 0 && ts.heap[0].when <= now
}

// expire calls fire of the timers that are due at now, and returns their number, which is
// at most the number of timers before the call: a timer that its own fire sets again does
// not make expire run without end. fire may set and stop timers.
func (ts *timers) expire(now time.Duration) (fired int) {
	for limit := len(ts.heap); fired < limit && ts.due(now); fired++ {
		t := ts.heap[0]
		ts.stop(t)
		t.fire()
	}
	return fired
}

// fix restores the heap order after the time of the timer at index at has changed.
func (ts *timers) fix(at int) {
	for at > 0 && ts.less(at, (at-1)/2) {
		ts.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(ts.heap); child++ {
			if ts.less(child, least) {
				least = child
			}
		}
		if least == at {
			return
		}
		ts.swap(at, least)
		at = least
	}
}

func (ts *timers) less(i, j int) bool { return ts.heap[i].when < ts.heap[j].when }

func (ts *timers) swap(i, j int) {
	ts.heap[i], ts.heap[j] = ts.heap[j], ts.heap[i]
	ts.heap[i].pos, ts.heap[j].pos = i+1, j+1
}

// A Timer calls a function of the application on its loop. Its methods may be called only
// on the goroutine of the loop.
type Timer struct {
	loop *Loop
	node timer
}

// Stop stops the timer. It returns false if the function was called already or the timer
// was stopped before.
func (t *Timer) Stop() bool { return t.loop.timers.stop(&t.node) }

// Reset makes the timer call its function after d from now. It replaces a time that was
// set before, and sets a timer again that has fired or was stopped.
func (t *Timer) Reset(d time.Duration) { t.loop.setTimer(&t.node, d) }

// After makes the loop call fn after d, never earlier. The delay beyond d depends on the
// other work of the loop. After may be called only on the goroutine of the loop.
func (l *Loop) After(d time.Duration, fn func()) *Timer {
	t := &Timer{loop: l, node: timer{fire: fn}}
	t.Reset(d)
	return t
}

// setTimer makes t fire after d from now. It reads the clock, because with an older time
// the timer would fire too early.
func (l *Loop) setTimer(t *timer, d time.Duration) {
	l.timers.set(t, l.clock.read()+max(0, d))
}
