package turns

// A Queue is a queuedLock for tests.
type Queue struct{ lock queuedLock }

// Lock waits for the lock.
func (q *Queue) Lock() { q.lock.lock() }

// Unlock passes the lock to the next goroutine, or frees the lock.
func (q *Queue) Unlock() { q.lock.unlock() }

// Contended reports whether goroutines wait for the lock.
func (q *Queue) Contended() bool { return q.lock.contended() }

// Waiting returns how many goroutines wait for the lock.
func (q *Queue) Waiting() int {
	q.lock.mu.Lock()
	defer q.lock.mu.Unlock()
	return len(q.lock.waiting)
}

// TryLock takes the loop if nobody owns it.
func (l *Loop) TryLock() bool { return l.lock.tryLock() }

// Sleepers returns how many goroutines are in Sleep.
func (l *Loop) Sleepers() int { return l.sleepers }

// Leader returns the Waiter of the goroutine that leads, or nil.
func (l *Loop) Leader() *Waiter { return l.leader }

// StandsIn reports whether the stand-in leads.
func (l *Loop) StandsIn() bool { return l.leader == &l.standIn }

// Followers returns how many goroutines follow.
func (l *Loop) Followers() (n int) {
	for w := l.followers.first; w != nil; w = w.next {
		n++
	}
	return n
}

// Armed reports whether the loop is armed.
func (l *Loop) Armed() bool { return l.armed }
