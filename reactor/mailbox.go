package reactor

import (
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A mailbox brings functions from other goroutines to the loop.
//
// The handshake with a loop that goes to sleep: a sender first puts its
// function in and then looks whether the loop sleeps; the loop first says that
// it sleeps and then looks into the box. Both are atomic, so at least one of
// them sees the other, and nothing waits for a loop that sleeps.
type mailbox struct {
	pending  atomic.Bool // there is something in queue
	sleeping atomic.Bool // the loop sleeps, or is about to
	refused  atomic.Uint64

	mu     sync.Mutex
	queue  []func()
	limit  int
	closed bool

	spare []func() // the loop's: storage of the batch that ran last
}

// put adds fn. It fails with ErrClosed, or with ErrMailboxFull unless fn is
// one of the loop's own errands, whose number is bounded elsewhere. wake says
// that the loop has to be woken.
func (m *mailbox) put(fn func(), errand bool) (wake bool, err error) {
	m.mu.Lock()
	switch {
	case m.closed:
		err = ErrClosed
	case len(m.queue) >= m.limit && !errand:
		err = ErrMailboxFull
	default:
		m.queue = append(m.queue, fn)
		m.pending.Store(true)
	}
	m.mu.Unlock()
	if err != nil {
		m.refused.Add(1)
		return false, err
	}
	return m.sleeping.Load(), nil
}

// run runs, on the loop, what was put in before the call.
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

func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	batch := m.queue
	m.queue, m.spare = m.spare, nil
	m.pending.Store(false)
	return batch
}

// close makes put fail; what is in the box can still be run.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// Post makes the loop call fn, after what was posted before. It may be called
// from any goroutine and does not block. It fails with ErrMailboxFull, or with
// ErrClosed when the loop is in OnShutdown or has ended; fn is then not called.
func (l *Loop) Post(fn func()) error { return l.post("post", fn, false) }

// Wake ends the present sleep of the loop, or its next one. It may be called
// from any goroutine.
func (l *Loop) Wake() { l.poller.Wake() }

func (l *Loop) post(op string, fn func(), errand bool) error {
	wake, err := l.mailbox.put(fn, errand)
	if err != nil {
		return verbs.Wrap(op, err)
	}
	if wake {
		l.poller.Wake()
	}
	return nil
}
