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
	mu       sync.Mutex
	eventfd  int // eventfd
	signaled bool
	closed   bool
	jobs     [numJobKinds][]func()
}

// A jobKind is the kind of a job, the most urgent first. Each kind has its own queue,
// so that requests of unknown peers neither delay the jobs of a connection nor take
// their room.
type jobKind uint8

const (
	// jobInternal is a job that this device creates itself. Such jobs are not dropped while
	// the channel is open. Each connection has at most two of them: its eviction, and the
	// first data of its peer.
	jobInternal jobKind = iota
	// jobMessage is a datagram of an existing connection.
	jobMessage
	// jobRequest is a connection request, or a copy of one.
	jobRequest
	numJobKinds
)

const (
	// maxJobs is how many jobs of a kind can wait. Further jobs are dropped, and the peer
	// repeats their datagrams. The number is arbitrary.
	maxJobs = 1024
	// requestBatch is how many requests the channel handles before it looks for messages
	// again. The number is arbitrary: it is twice the number of datagrams that a socket
	// hands over at a time.
	requestBatch = 2 * madBatch
)

func (k jobKind) limit() int {
	if k == jobInternal {
		return math.MaxInt
	}
	return maxJobs
}

// leave adds a job, from any goroutine. The job runs with the lock of the channel
// held. leave returns false if it dropped the job.
func (b *inbox) add(kind jobKind, job func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.jobs[kind]) >= kind.limit() {
		return false
	}
	b.jobs[kind] = append(b.jobs[kind], job)
	b.signalLocked(true)
	return true
}

// take returns the next jobs: all jobs except requests, and up to requestBatch
// requests.
func (b *inbox) takeBatch() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.jobs[jobRequest]
	n := min(len(requests), requestBatch)
	jobs := append(append(b.jobs[jobInternal], b.jobs[jobMessage]...), requests[:n]...)
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
func (b *inbox) signal(more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.signalLocked(more || b.waiting() > 0)
	}
}

func (b *inbox) signalLocked(on bool) {
	switch {
	case on == b.signaled:
		return
	case on:
		ringEventfd(b.eventfd)
	default:
		drainEventfd(b.eventfd)
	}
	b.signaled = on
}

// close ends it. The bell is not used any more.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.jobs = true, [numJobKinds][]func(){}
}
