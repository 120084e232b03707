package reactor

import "time"

// A timer calls fire once, when its time has come. The zero value with fire
// set is ready for timers.set. It is part of whatever it times, so that
// setting and stopping allocate nothing.
type timer struct {
	fire func()
	when time.Duration // in the loop's time
	pos  int           // index in the heap plus one; 0: not set
}

// timers is a heap of timers, soonest first. Time is an argument.
type timers struct {
	heap []*timer
}

// set sets t to fire at when, whether it was set before or not.
func (ts *timers) set(t *timer, when time.Duration) {
	t.when = when
	if t.pos == 0 {
		ts.heap = append(ts.heap, t)
		t.pos = len(ts.heap)
	}
	ts.fix(t.pos - 1)
}

// stop takes t out, and reports whether it was set.
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

// next is when the soonest timer fires.
func (ts *timers) next() (when time.Duration, ok bool) {
	if len(ts.heap) == 0 {
		return 0, false
	}
	return ts.heap[0].when, true
}

// due reports whether a timer is to fire at now.
func (ts *timers) due(now time.Duration) bool {
	return len(ts.heap) > 0 && ts.heap[0].when <= now
}

// expire fires what is due at now and was set before the call, and returns how
// many. Timers may be set and stopped meanwhile.
func (ts *timers) expire(now time.Duration) (fired int) {
	for limit := len(ts.heap); fired < limit && ts.due(now); fired++ {
		t := ts.heap[0]
		ts.stop(t)
		t.fire()
	}
	return fired
}

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

// A Timer calls a function of the application's on its loop, which is also the
// only goroutine that may call its methods.
type Timer struct {
	loop *Loop
	node timer
}

// Stop keeps the function from being called, and reports whether it was still
// to be.
func (t *Timer) Stop() bool { return t.loop.timers.stop(&t.node) }

// Reset makes the function be called after d from now, whether it was called
// or stopped before or not.
func (t *Timer) Reset(d time.Duration) { t.loop.setTimer(&t.node, d) }

// After calls fn on the loop once d has passed, never earlier. How much later
// depends on what else the loop has to do. On the loop only.
func (l *Loop) After(d time.Duration, fn func()) *Timer {
	t := &Timer{loop: l, node: timer{fire: fn}}
	t.Reset(d)
	return t
}

// setTimer reads the clock: one that lags would make the timer fire early.
func (l *Loop) setTimer(t *timer, d time.Duration) {
	l.timers.set(t, l.clock.read()+max(0, d))
}
