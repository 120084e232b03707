package turns

import (
	"time"
)

// watchInterval is the time between two calls of Loop.tick. A loop without an owner is
// armed after about two intervals at the latest. A shorter interval would interrupt
// programs that poll the loop themselves. Arbitrary.
const watchInterval = time.Millisecond

// aloneBefore is how often in a row a goroutine must have been the only one in Sleep
// before it watches the loop in place of the watcher. Arbitrary.
const aloneBefore = 4

// A watchState says which goroutine watches the loop while no goroutine owns the loop. To
// watch the loop means to wait until its descriptor is readable, and then to run turns.
// If only one goroutine is in Sleep, this goroutine watches the loop, which saves a
// switch to another goroutine for each event. Otherwise the watcher watches the loop. The
// watcher is a goroutine of this package, which is started when it is needed.
type watchState struct {
	by        *Waiter // Waiter of the goroutine that watches, or nil
	watcher   Waiter  // Waiter of the watcher
	successor *Waiter // Waiter of the goroutine that wants to watch in place of the watcher
	alone     int     // number of calls of Sleep in a row without another goroutine in Sleep
	wait      waitState

	// The timer calls Loop.tick watchInterval after the loop was left without being armed
	// or watched.
	timer   *time.Timer
	timing  bool   // true while the timer is set
	checked uint64 // value of Loop.turns at the last call of tick
}

// A waitState says whether a goroutine waits for the descriptor of the loop.
type waitState uint8

const (
	// waitNone: no goroutine waits.
	waitNone waitState = iota
	// waitRunning: the goroutine that watches has left the loop, and waits until the
	// descriptor is readable.
	waitRunning
	// waitInterrupted: interrupt has ended this wait, and the goroutine does not own the
	// loop again yet.
	waitInterrupted
)

// init prepares the timer.
func (s *watchState) init(l *Loop) {
	s.timer = time.AfterFunc(time.Hour, l.tick)
	s.timer.Stop()
}

// ensureWatch makes sure that a goroutine watches the loop after the owner has left the
// loop: at once if goroutines are in Sleep, and otherwise when the timer fires.
func (l *Loop) ensureWatch() {
	s := &l.watch
	switch {
	case l.err != nil:
	case s.by == nil && l.sleepers > 0:
		s.by = &s.watcher
		l.watchers.Go(l.runWatcher)
	case (s.by == nil || !l.armed) && !s.timing:
		s.timing = true
		l.watchers.Add(1)
		s.timer.Reset(watchInterval)
	}
}

// tick is called by the timer, on a goroutine of its own. If no turns were run since the
// last call, this goroutine becomes the watcher.
func (l *Loop) tick() {
	defer l.watchers.Done()
	l.Lock()
	s := &l.watch
	s.timing = false
	if s.checked == l.turns {
		l.settle()
		if s.by == nil {
			s.by = &s.watcher
			l.leave()
			l.runWatcher()
			return
		}
	}
	s.checked = l.turns
	l.Unlock()
}

// runWatcher is the function of the watcher. The caller has set watchState.by.
func (l *Loop) runWatcher() {
	l.Lock()
	s := &l.watch
	s.watcher.asleep = true
	l.keepWatch(&s.watcher, nil)
	s.watcher.asleep = false
	if next := s.successor; next != nil && next.asleep {
		s.by = next
		next.next, l.woken = l.woken, next
	}
	s.successor = nil
	l.Unlock()
}

// mayWatch reports whether the goroutine that sleeps with w watches the loop. If the
// watcher watches the loop, mayWatch may ask the watcher to stop.
func (l *Loop) mayWatch(w *Waiter) bool {
	s := &l.watch
	if l.sleepers > 1 || l.err != nil {
		s.alone = 0
		return false
	}
	if s.alone++; s.alone > aloneBefore && s.by == &s.watcher && s.watcher.asleep && s.successor == nil {
		s.successor = w
		l.Wake(&s.watcher)
	}
	return s.by == nil
}

// forget is called when the timeout of a goroutine in Sleep has passed. If the goroutine
// was woken at the same time, or was chosen to watch the loop, forget undoes that.
func (l *Loop) forget(w *Waiter) {
	if l.watch.by == w || !w.asleep {
		<-w.wake
	}
	if l.watch.by == w {
		l.watch.by = nil
	}
}

// keepWatch watches the loop for the goroutine that sleeps with w, until Wake is called
// for w, the channel timeout is closed, or the loop has ended. The caller owns the loop
// before and after.
func (l *Loop) keepWatch(w *Waiter, timeout <-chan struct{}) {
	s := &l.watch
	s.by = w
	for l.settle(); w.asleep && l.err == nil && !isClosed(timeout); l.settle() {
		s.wait = waitRunning
		l.leave()
		err := l.waitReadable()
		l.Lock()
		if s.wait == waitInterrupted {
			l.setDeadline(time.Time{})
		}
		s.wait = waitNone
		l.armed = l.armed && err != nil // A readable descriptor means that there is work.
	}
	s.by = nil
}

// interrupt ends the wait of the goroutine that watches.
func (l *Loop) interrupt() {
	if l.watch.wait == waitRunning {
		l.watch.wait = waitInterrupted
		l.setDeadline(time.Unix(1, 0))
	}
}

// waitReadable waits until the descriptor of the loop is readable. The error matches
// os.ErrDeadlineExceeded after interrupt, and os.ErrClosed after the end of the loop.
func (l *Loop) waitReadable() error {
	raw, err := l.fd.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(readable)
}

// setDeadline sets the time at which waitReadable returns. The zero time means never.
func (l *Loop) setDeadline(t time.Time) {
	// SetReadDeadline fails only if the loop has ended, and then waitReadable returns too.
	_ = l.fd.SetReadDeadline(t)
}
