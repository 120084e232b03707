package turns

import (
	"sync"
	"sync/atomic"
)

// A lockState is the state of a queuedLock.
type lockState = uint32

const (
	lockFree lockState = iota
	lockHeld
	lockContended // a goroutine holds the lock, and others wait in the queue
)

// A queuedLock is a lock that is passed to waiting goroutines in the order in which they
// have begun to wait. A sync.Mutex does not have this order: a goroutine that unlocks it
// and locks it again at once mostly wins against one that waits.
type queuedLock struct {
	state atomic.Uint32 // a lockState

	mu      sync.Mutex
	waiting []chan struct{} // a channel per waiting goroutine, which gets the lock by a receive
	spare   []chan struct{} // channels to use again
}

// lock waits for the lock.
func (l *queuedLock) lock() {
	if l.tryLock() {
		return
	}
	l.mu.Lock()
	if l.state.Swap(lockContended) == lockFree {
		// No other goroutine waits, because the queue of a free lock is empty.
		l.state.Store(lockHeld)
		l.mu.Unlock()
		return
	}
	place := l.channel()
	l.waiting = append(l.waiting, place)
	l.mu.Unlock()
	<-place
	l.mu.Lock()
	l.spare = append(l.spare, place)
	l.mu.Unlock()
}

// channel returns a channel that no goroutine uses. The caller holds mu.
func (l *queuedLock) channel() chan struct{} {
	if n := len(l.spare); n > 0 {
		c := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return c
	}
	return make(chan struct{}, 1)
}

// tryLock takes the lock if it is free.
func (l *queuedLock) tryLock() bool { return l.state.CompareAndSwap(lockFree, lockHeld) }

// contended reports whether other goroutines wait for the lock, which the caller holds.
func (l *queuedLock) contended() bool { return l.state.Load() == lockContended }

// unlock passes the lock to the goroutine that has waited longest, or frees it.
func (l *queuedLock) unlock() {
	if l.state.CompareAndSwap(lockHeld, lockFree) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	place := l.waiting[0]
	l.waiting = l.waiting[:copy(l.waiting, l.waiting[1:])]
	if len(l.waiting) == 0 {
		l.state.Store(lockHeld)
	}
	place <- struct{}{}
}
