package reactor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A mailbox is a queue of functions that other goroutines want the loop to call. A
// wake-up needs a system call, so a sender wakes the loop only while the loop sleeps.
//
// The order of two atomic accesses makes sure that the loop does not sleep while a
// function waits:
//
//   - A sender sets the field pending, and then reads the field sleeping.
//   - The loop sets the field sleeping, and then reads the field pending.
type mailbox struct {
	pending  atomic.Bool   // true if the field queue is not empty
	sleeping atomic.Bool   // true while the loop sleeps, and just before that
	refused  atomic.Uint64 // number of functions that were passed to Post and refused

	mu     sync.Mutex
	queue  []func()
	limit  int // largest length of queue: Config.Limits.MaxPosted
	closed bool
	// waiters are the callers of putWait, in the order of the calls. There are some only while
	// the queue is full.
	waiters []*postWaiter

	// batch has the functions that run() calls, from the index next on. After run() it is
	// empty, unless a function has panicked. Only the loop uses these fields.
	batch []func()
	next  int

	// spare is an empty slice for the functions that come next. When the loop takes the
	// functions, it exchanges this slice and the queue, so put() need not allocate. Only
	// the loop uses this field.
	spare []func()
}

// A postWaiter is a call of putWait that waits for room in the queue.
type postWaiter struct {
	fn     func()
	result chan error // gets the result of putWait
}

// put adds fn, and reports whether the caller must wake the loop. The errors match
// ErrClosed or ErrTooManyPosted. If internal is true, the function belongs to the
// library, and the limit does not apply.
func (m *mailbox) put(fn func(), internal bool) (wake bool, err error) {
	m.mu.Lock()
	err = m.add(fn, internal)
	m.mu.Unlock()
	if err == ErrTooManyPosted {
		err = fmt.Errorf("%w: Config.Limits.MaxPosted is %d", err, m.limit)
	}
	if err != nil {
		if !internal {
			m.refused.Add(1)
		}
		return false, err
	}
	return m.sleeping.Load(), nil
}

// add is put with m.mu locked.
func (m *mailbox) add(fn func(), internal bool) error {
	switch {
	case m.closed:
		return errLoopEnded
	case len(m.queue) >= m.limit && !internal:
		return ErrTooManyPosted
	}
	m.queue = append(m.queue, fn)
	m.pending.Store(true)
	return nil
}

// putWait is put for a caller that waits for room in the queue until ctx is done. The error is
// ErrClosed, or the cause of ctx. Waiting callers have the order of their calls.
func (m *mailbox) putWait(ctx context.Context, fn func()) (wake bool, err error) {
	m.mu.Lock()
	err = m.add(fn, false)
	if err == ErrTooManyPosted {
		w := &postWaiter{fn: fn, result: make(chan error, 1)}
		m.waiters = append(m.waiters, w)
		m.mu.Unlock()
		err = m.await(ctx, w)
	} else {
		m.mu.Unlock()
	}
	if err != nil {
		m.refused.Add(1)
		return false, err
	}
	return m.sleeping.Load(), nil
}

// await returns the result of a waiter. When ctx is done, the waiter ends, unless it has a
// result.
func (m *mailbox) await(ctx context.Context, w *postWaiter) error {
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
	}
	m.mu.Lock()
	i := slices.Index(m.waiters, w)
	if i >= 0 {
		m.waiters = slices.Delete(m.waiters, i, i+1)
	}
	m.mu.Unlock()
	if i >= 0 {
		return context.Cause(ctx)
	}
	return <-w.result
}

// admit adds the functions of waiters while there is room, with m.mu locked.
func (m *mailbox) admit() {
	n := 0
	for ; n < len(m.waiters) && m.add(m.waiters[n].fn, false) == nil; n++ {
		m.waiters[n].result <- nil
	}
	m.waiters = slices.Delete(m.waiters, 0, n)
}

// run calls the functions that were added before the call, and returns their number. If a
// function panics, the next call goes on behind it. Only the loop calls run.
func (m *mailbox) run() int {
	if len(m.batch) == 0 {
		m.batch = m.take()
	}
	for m.next < len(m.batch) {
		fn := m.batch[m.next]
		m.batch[m.next] = nil
		m.next++
		fn()
	}
	n := m.next
	m.spare, m.batch, m.next = m.batch[:0], nil, 0
	return n
}

// waiting reports whether functions wait for run().
func (m *mailbox) waiting() bool { return m.pending.Load() || len(m.batch) > 0 }

// take removes and returns all functions. Those of waiters come into the queue.
func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	batch := m.queue
	m.queue, m.spare = m.spare, nil
	m.pending.Store(false)
	m.admit()
	return batch
}

// close makes put() and putWait() fail. The functions that were added before can still be
// run.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, w := range m.waiters {
		w.result <- errLoopEnded
	}
	m.waiters = nil
}
