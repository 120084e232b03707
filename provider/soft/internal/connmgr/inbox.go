//go:build linux

package connmgr

import (
	"math"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/eventfd"
)

// An inbox is the job queue of a channel. Any goroutine may add jobs, also without the
// channel's lock. The goroutine that calls Next on the channel runs the jobs. The eventfd
// of the inbox makes the channel's descriptor readable while jobs or events are queued.
//
// Package reactor has a queue of functions too, the mailbox of a loop. An inbox differs
// from a mailbox in three ways. First, an inbox has a queue for each kind of job, so that
// a flood of requests does not delay the jobs of connections. Second, the owner of a
// channel may use any poller. So an inbox can not know whether its owner sleeps, and it
// signals an eventfd. A mailbox wakes only a loop that sleeps. Third, an inbox always
// locks its mutex. A loop looks at its mailbox in every turn, so a mailbox has an atomic
// flag for that.
type inbox struct {
	mu       sync.Mutex
	eventfd  int  // eventfd, watched by the epoll descriptor of the channel
	signaled bool // true if the eventfd is readable
	// draining is true from a call of begin to the next call of signal. While draining is
	// true, add does not make the eventfd readable, because takeBatch or signal will find
	// the job.
	draining bool
	closed   bool
	jobs     [numJobKinds][]func()
}

// A jobKind is the kind of a job; the most urgent kind has the lowest value. Each kind
// has its own queue. So requests of unknown peers neither delay the jobs of connections
// nor fill the queue of these jobs.
type jobKind uint8

const (
	// jobInternal is a job that this device creates itself. Such jobs are not dropped
	// while the channel is open. Each connection has at most two such jobs: one for its
	// eviction, and one for the first data of its peer.
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
	// requestBatch is how many requests the channel handles before it handles the jobs
	// that have been added in the meantime and are more urgent. The number is arbitrary:
	// twice the number of datagrams that are received from a socket at a time.
	requestBatch = 2 * madBatch
)

func (k jobKind) limit() int {
	if k == jobInternal {
		return math.MaxInt
	}
	return maxJobs
}

// add adds a job. Any goroutine may call it. The job runs with the lock of the channel
// held. If the queue of the kind is full or the inbox is closed, add drops the job and
// returns false.
func (b *inbox) add(kind jobKind, job func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.jobs[kind]) >= kind.limit() {
		return false
	}
	b.jobs[kind] = append(b.jobs[kind], job)
	if !b.draining {
		b.signalLocked(true)
	}
	return true
}

// begin announces that the caller reads the sockets of the channel, and then calls
// takeBatch and signal. Until the call of signal, add makes no system call. Most jobs
// are datagrams that the channel reads for its own connections, so they are added
// between begin and signal. For these jobs no system call is needed.
func (b *inbox) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining = true
}

// takeBatch removes and returns all internal jobs and all messages, and up to
// requestBatch requests.
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

// signal ends the interval that begin has started: it sets draining to false. The
// parameter events says whether events are queued. If events or jobs are queued, signal
// makes the eventfd readable. Otherwise it makes the eventfd unreadable.
func (b *inbox) signal(events bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining = false
	if !b.closed {
		b.signalLocked(events || b.waiting() > 0)
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
