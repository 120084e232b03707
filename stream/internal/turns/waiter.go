package turns

// A Waiter lets one goroutine sleep until an event. Only the owner of the loop uses it.
type Waiter struct {
	wake   chan struct{} // gets an element to wake the goroutine; has room for one
	asleep bool          // true while the goroutine sleeps and was not woken
	next   *Waiter       // next Waiter in Loop.woken
}

// NewWaiter returns a Waiter.
func NewWaiter() *Waiter { return &Waiter{wake: make(chan struct{}, 1)} }

// Wake wakes the goroutine that sleeps with w, if there is one. The goroutine is woken
// when the caller has left the loop, so that it does not have to wait for the loop.
func (l *Loop) Wake(w *Waiter) {
	if !w.asleep {
		return
	}
	w.asleep = false
	l.notify(w)
}

// Recheck makes the goroutine that sleeps with w check its timeout. It must be called
// when the timeout has passed or was changed.
func (l *Loop) Recheck(w *Waiter) {
	if l.watch.by == w {
		l.interrupt()
	}
}

// notify makes the goroutine that sleeps with w run.
func (l *Loop) notify(w *Waiter) {
	if l.watch.by == w {
		l.interrupt()
		return
	}
	w.next, l.woken = l.woken, w
}

// wakeAll makes the goroutines of a list of Waiters run. The caller does not own the
// loop.
func wakeAll(w *Waiter) {
	for w != nil {
		next := w.next // After the send, the goroutine may use w again.
		w.wake <- struct{}{}
		w = next
	}
}

// Sleep waits until Wake is called for w, or until the channel timeout is closed. The
// caller owns the loop before and after, but not in the meantime. The result is true if
// Wake was called.
func (l *Loop) Sleep(w *Waiter, timeout <-chan struct{}) bool {
	w.asleep = true
	l.sleepers++
	if l.mayWatch(w) {
		l.keepWatch(w, timeout)
	}
	for w.asleep && !isClosed(timeout) {
		l.Unlock()
		select {
		case <-w.wake:
			l.Lock()
			if w.asleep { // From now on this goroutine watches, instead of the watcher.
				l.keepWatch(w, timeout)
			} else if l.watch.by == w {
				l.watch.by = nil
			}
		case <-timeout:
			l.Lock()
			l.forget(w)
		}
	}
	l.sleepers--
	if l.watch.successor == w {
		l.watch.successor = nil
	}
	woken := !w.asleep
	w.asleep = false
	return woken
}

// isClosed reports whether the channel is closed. No value is ever sent to the channel.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
