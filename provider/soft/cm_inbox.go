//go:build linux

package soft

import (
	"math"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// An inbox is the job queue of a channel. Goroutines that do not hold the channel's lock
// add jobs, and the goroutine that drives the channel runs them. The eventfd of the
// inbox makes the channel's descriptor readable, both for jobs and for queued events.
type inbox struct {
	mu       sync.Mutex
	eventfd  int // in the epoll set of the channel
	signaled bool
	closed   bool
	jobs     [numJobKinds][]func()
}

// A jobKind is the kind of a job, the most urgent one first. Each kind has a queue of
// its own. So requests of unknown peers neither delay the jobs of connections nor fill
// their queue.
type jobKind uint8

const (
	// jobInternal is a job that this device creates itself. Such jobs are not dropped
	// while the channel is open. Each connection has at most two of them: its eviction,
	// and the first data of its peer.
	jobInternal jobKind = iota
	// jobMessage is a datagram of an existing connection.
	jobMessage
	// jobRequest is a connection request, or a copy of one.
	jobRequest
	numJobKinds
)

const (
	// maxJobs is the largest number of queued jobs of one kind. Further jobs are
	// dropped, and the peer retransmits their datagrams. The number is arbitrary.
	maxJobs = 1024
	// requestBatch is the number of requests that the channel handles before it looks
	// for messages again. The number is arbitrary: it is twice the number of datagrams
	// that a socket returns at a time.
	requestBatch = 2 * madBatch
)

func (k jobKind) limit() int {
	if k == jobInternal {
		return math.MaxInt
	}
	return maxJobs
}

// add adds a job. Any goroutine may call it. The job runs with the lock of the channel
// held. add returns false if it has dropped the job.
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

// takeBatch removes and returns all jobs that are no requests, and up to requestBatch
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

// signal makes the eventfd readable if jobs wait or more is true, and unreadable
// otherwise.
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
		eventfd.Signal(b.eventfd)
	default:
		eventfd.Drain(b.eventfd)
	}
	b.signaled = on
}

// close drops all jobs. The inbox does not use the eventfd any more.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.jobs = true, [numJobKinds][]func(){}
}
