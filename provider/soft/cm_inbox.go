//go:build linux

package soft

import (
	"math"
	"sync"
)

// An inbox is where others than the holder of the channel's lock leave work for
// the channel, and whoever drives the channel does it. It also minds the
// channel's bell, which tells of both the work and the events.
type inbox struct {
	mu     sync.Mutex
	bell   int // eventfd
	rung   bool
	closed bool
	jobs   [numJobKinds][]func()
}

// A jobKind is what a job is about, the most urgent first. Each kind has a queue of
// its own, so that requests of strangers do not delay what belongs to a connection, or
// take its place.
type jobKind uint8

const (
	// jobOwn is work that this device makes for itself. It is not lost while the channel
	// is open, and each connection has at most two of them: that it is to make room,
	// and that its peer has sent data.
	jobOwn jobKind = iota
	// jobMessage is a datagram that names a connection.
	jobMessage
	// jobRequest is a request for a new connection, or a copy of one.
	jobRequest
	numJobKinds
)

const (
	// maxJobs is how many jobs of a kind can wait. What comes beyond is lost, as a
	// datagram may be, and the peer repeats it. The figure is arbitrary.
	maxJobs = 1024
	// requestBatch is how many requests are looked at before the channel looks for
	// messages again. The figure is arbitrary: it is twice the number of datagrams
	// that a socket hands over at a time.
	requestBatch = 2 * madBatch
)

func (k jobKind) limit() int {
	if k == jobOwn {
		return math.MaxInt
	}
	return maxJobs
}

// leave adds work, from any goroutine. It is done with the lock of the channel
// held. It returns false when the work is lost.
func (b *inbox) leave(kind jobKind, job func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.jobs[kind]) >= kind.limit() {
		return false
	}
	b.jobs[kind] = append(b.jobs[kind], job)
	b.ring(true)
	return true
}

// take returns the work that is next: all but the requests, and some of these.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.jobs[jobRequest]
	n := min(len(requests), requestBatch)
	jobs := append(append(b.jobs[jobOwn], b.jobs[jobMessage]...), requests[:n]...)
	b.jobs = [numJobKinds][]func(){}
	if n < len(requests) {
		clear(requests[:n])
		b.jobs[jobRequest] = requests[n:]
	}
	return jobs
}

func (b *inbox) waiting() (n int) {
	for _, jobs := range b.jobs {
		n += len(jobs)
	}
	return n
}

// tell makes the bell readable when there is work, or something else.
func (b *inbox) tell(more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.ring(more || b.waiting() > 0)
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
	b.closed, b.jobs = true, [numJobKinds][]func(){}
}
