//go:build linux

package soft

import "sync"

// An inbox is where others than the holder of the channel's lock leave work for
// the channel, and whoever drives the channel does it. It also minds the
// channel's bell, which tells of both the work and the events.
type inbox struct {
	mu     sync.Mutex
	bell   int // eventfd
	rung   bool
	closed bool
	jobs   []func()
}

// maxJobs bounds what strangers can leave. What comes beyond is lost, as a
// datagram may be.
const maxJobs = 1024

// leave adds work, from any goroutine. It is done with the lock of the channel
// held. It returns false when the work is lost.
func (b *inbox) leave(job func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.jobs) >= maxJobs {
		return false
	}
	b.jobs = append(b.jobs, job)
	b.ring(true)
	return true
}

// take returns the work there is.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := b.jobs
	b.jobs = nil
	return jobs
}

// tell makes the bell readable when there is work, or something else.
func (b *inbox) tell(more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.ring(more || len(b.jobs) > 0)
	}
}

func (b *inbox) ring(on bool) {
	switch {
	case on == b.rung:
		return
	case on:
		ringEventfd(b.bell)
	default:
		drainEventfd(b.bell)
	}
	b.rung = on
}

// close ends it. The bell is not used any more.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.jobs = true, nil
}
