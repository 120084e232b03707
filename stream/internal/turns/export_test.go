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
