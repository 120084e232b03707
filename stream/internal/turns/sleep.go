package turns

import "time"

// A Waiter lets one goroutine sleep until an event. Only the owner of the loop uses it,
// except the channel.
type Waiter struct {
	state waiterState
	// signal gets an element when the goroutine leaves Loop.followers, unless the goroutine
	// has removed itself. It has room for one.
	signal     chan struct{}
	prev, next *Waiter // neighbors in Loop.followers or Loop.signals
}

// A waiterState says what the goroutine of a Waiter does.
type waiterState uint8

const (
	// waiterAwake: the goroutine is not in Sleep. The methods lead and follow lead to the
	// states of the same names.
	waiterAwake waiterState = iota
	// waiterFollows: the goroutine waits for its signal. Wake leads to waiterWoken,
	// ensureLeader to waiterLeads, and the return of Sleep after the timeout to waiterAwake.
	waiterFollows
	// waiterLeads: Loop.leader is this Waiter. The goroutine runs turns or waits for the
	// descriptor, or ensureLeader has chosen it and it does not own the loop yet. Wake leads
	// to waiterWoken, the end of the loop to waiterFollows, and the return of Sleep after the
	// timeout to waiterAwake.
	waiterLeads
	// waiterWoken: Wake was called. The goroutine leaves Sleep when it owns the loop, and
	// enters waiterAwake. Until then it can still be Loop.leader, and so nobody else leads.
	waiterWoken
)

// NewWaiter returns a Waiter.
func NewWaiter() *Waiter { return &Waiter{signal: make(chan struct{}, 1)} }

// Sleep waits until Wake is called for w, or until the channel timeout is closed. The
// caller owns the loop before and after, but not in the meantime. The result is true if
// Wake was called.
func (l *Loop) Sleep(w *Waiter, timeout <-chan struct{}) bool {
	l.sleepers++
	for w.state != waiterWoken && !IsClosed(timeout) {
		if l.leader == nil && l.err == nil {
			l.lead(w, timeout)
		} else {
			l.follow(w, timeout)
		}
	}
	l.sleepers--
	woken := w.state == waiterWoken
	w.state = waiterAwake
	return woken
}

// lead waits for events of the loop and runs its turns, until Wake is called for w, the
// channel timeout is closed, or the loop has ended.
func (l *Loop) lead(w *Waiter, timeout <-chan struct{}) {
	l.leader, w.state = w, waiterLeads
	for l.settle(); w.state == waiterLeads && l.err == nil && !IsClosed(timeout); l.settle() {
		l.awaitEvent()
	}
	l.leader = nil
}

// awaitEvent lets others own the loop until its descriptor is readable, or until
// descriptor.interrupt is called.
func (l *Loop) awaitEvent() {
	l.events.begin()
	l.leave()
	readable := l.events.wait()
	l.Lock()
	l.events.end()
	if readable {
		l.armed = false // There is work.
	}
}

// follow waits until Wake is called for w, until w is chosen to lead, or until the
// channel timeout is closed.
func (l *Loop) follow(w *Waiter, timeout <-chan struct{}) {
	w.state = waiterFollows
	l.followers.add(w)
	l.Unlock()
	select {
	case <-w.signal:
		l.Lock()
	case <-timeout:
		l.Lock()
		if w.state == waiterFollows {
			l.followers.remove(w)
		} else {
			<-w.signal // It was sent, or is about to be sent.
		}
	}
	if l.leader == w {
		l.leader = nil // As the owner it can lead now, or leave that to others.
	}
}

// Wake wakes the goroutine that sleeps with w, if there is one.
func (l *Loop) Wake(w *Waiter) {
	switch w.state {
	case waiterFollows:
		l.followers.remove(w)
		l.signals.add(w)
		w.state = waiterWoken
	case waiterLeads:
		l.events.interrupt()
		w.state = waiterWoken
	}
}

// Recheck makes the goroutine that sleeps with w check its timeout. It must be called
// when the timeout has passed or was changed.
func (l *Loop) Recheck(w *Waiter) {
	if w.state == waiterLeads { // A follower waits for its timeout itself.
		l.events.interrupt()
	}
}

// ensureLeader makes sure that the loop has a leader after the owner has left it: at once
// if goroutines follow, and otherwise when the timer fires.
func (l *Loop) ensureLeader() {
	switch {
	case l.err != nil:
	case l.leader == nil && l.followers.first != nil:
		w := l.followers.first
		l.followers.remove(w)
		l.signals.add(w)
		l.leader, w.state = w, waiterLeads
	case (l.leader == nil || !l.armed) && !l.idle.set:
		l.idle.set = true
		l.background.Add(1)
		l.idle.timer.Reset(idleInterval)
	}
}

// idleInterval is the time of the idleTimer. A loop without an owner is armed after about
// two intervals at the latest. A shorter interval would interrupt programs that poll the
// loop themselves. Arbitrary.
const idleInterval = time.Millisecond

// An idleTimer finds a loop of which nobody runs turns. It is set when an owner leaves
// the loop without a leader, or leaves it unarmed.
type idleTimer struct {
	timer *time.Timer // calls Loop.onIdleTimer
	set   bool
	turns uint64 // value of Loop.turns when the timer last fired
}

// onIdleTimer is called by the timer, on a goroutine of its own. If nobody has run turns
// since the last call, it arms the loop. If there is no leader, it stands in for one.
func (l *Loop) onIdleTimer() {
	defer l.background.Done()
	l.Lock()
	l.idle.set = false
	if l.idle.turns == l.turns {
		l.settle()
		if l.leader == nil {
			l.standInAsLeader()
		}
	}
	l.idle.turns = l.turns
	l.Unlock()
}

// standInAsLeader leads until an event comes while goroutines are in Sleep, or until the
// loop has ended.
func (l *Loop) standInAsLeader() {
	l.leader = &l.standIn
	for l.sleepers == 0 && l.err == nil {
		l.awaitEvent()
		l.settle()
	}
	l.leader = nil
}

// A waiterQueue has Waiters, each of which is in one queue at most.
type waiterQueue struct{ first, last *Waiter }

func (q *waiterQueue) add(w *Waiter) {
	w.prev, w.next = q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *waiterQueue) remove(w *Waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
}

// signalAll signals the goroutines of a queue that begins with w. The caller does not own the loop.
func signalAll(w *Waiter) {
	for w != nil {
		next := w.next // After the signal, the goroutine may use w again.
		w.signal <- struct{}{}
		w = next
	}
}

// IsClosed reports whether the channel is closed. No value is ever sent to the channel.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
