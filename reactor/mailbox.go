package reactor

import (
	"sync"
	"sync/atomic"
)

// A mailbox is a queue of functions that other goroutines want the loop to call. Package
// provider/soft/internal/connmgr has another queue of functions, the type inbox. The
// functions in an inbox have kinds with a limit for each, and the descriptor of an inbox
// is readable while functions wait. A mailbox has no descriptor. Its sender wakes the
// loop, and only while the loop sleeps, so posting to a loop that is awake needs no
// system call.
//
// No function waits while the loop sleeps. A sender first adds its function, which sets
// the field pending. Then the sender reads the field sleeping. The loop first sets the
// field sleeping and then reads the field pending. All these accesses are atomic. So
// either the sender sees that the loop sleeps, and wakes it, or the loop sees the
// function, and does not sleep.
type mailbox struct {
	pending  atomic.Bool   // queue is not empty
	sleeping atomic.Bool   // the loop sleeps, or is about to sleep
	refused  atomic.Uint64 // number of functions that were passed to Post and refused

	mu     sync.Mutex
	queue  []func()
	limit  int // Config.MaxPosted
	closed bool

	// spare is an empty slice for the field queue. When the loop takes the functions out
	// of the queue, spare becomes the queue, and the old queue becomes spare after its
	// functions were called. So put need not allocate memory. Only the goroutine of the
	// loop uses spare.
	spare []func()
}

// put adds fn. It returns ErrClosed after close, and ErrTooManyPosted if the number of
// functions that wait has reached Config.MaxPosted. The parameter internal is true if
// the engine itself posts fn, for example in Dial, Accept or Stop. The limit does not
// apply to these functions. The first result is true if the caller must wake the loop.
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

// run calls the functions that were added before the call, and returns their number. It
// is called on the loop only.
func (m *mailbox) run() int {
	if !m.pending.Load() {
		return 0
	}
	batch := m.take()
	for i, fn := range batch {
		fn()
		batch[i] = nil
	}
	m.spare = batch[:0]
	return len(batch)
}

// take removes and returns all functions.
func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	batch := m.queue
	m.queue, m.spare = m.spare, nil
	m.pending.Store(false)
	return batch
}

// close makes put fail. The functions that were added before can still be run.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}
