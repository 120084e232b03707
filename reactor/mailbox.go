package reactor

import (
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
	limit  int // largest length of queue: Config.MaxPosted
	closed bool

	// batch has the functions that run() calls, from the index next on. After run() it is
	// empty, unless a function has panicked. Only the loop uses these fields.
	batch []func()
	next  int

	// spare is an empty slice for the functions that come next. When the loop takes the
	// functions, it exchanges this slice and the queue, so put() need not allocate. Only
	// the loop uses this field.
	spare []func()
}

// put adds fn, and reports whether the caller must wake the loop. The errors are
// ErrClosed and ErrTooManyPosted. If internal is true, the function belongs to the
// library, and the limit does not apply.
func (m *mailbox) put(fn func(), internal bool) (wake bool, err error) {
	m.mu.Lock()
	switch {
	case m.closed:
		err = ErrClosed
	case len(m.queue) >= m.limit && !internal:
		err = ErrTooManyPosted
	default:
		m.queue = append(m.queue, fn)
		m.pending.Store(true)
	}
	m.mu.Unlock()
	if err != nil {
		if !internal {
			m.refused.Add(1)
		}
		return false, err
	}
	return m.sleeping.Load(), nil
}

// run calls the functions that were added before the call, and returns their number. If a
// function panics, the next call goes on behind it. Only the loop calls run.
func (m *mailbox) run() int {
	if !m.waiting() {
		return 0
	}
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

// take removes and returns all functions.
func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	batch := m.queue
	m.queue, m.spare = m.spare, nil
	m.pending.Store(false)
	return batch
}

// close makes put() fail. The functions that were added before can still be run.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
