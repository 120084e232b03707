//go:build linux

package madcm

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// An inbox is the job queue of a channel. Any goroutine may add jobs. The channel runs
// them in its method Next. The multiplexer's lock guards an inbox.
//
// Each kind of job has its own queue, so a flood of requests does not delay the datagrams
// of connections. See requestQueue for requests of several sources.
type inbox struct {
	closed bool
	// jobs has the jobs of all kinds except jobRequest.
	jobs     [jobRequest][]job
	requests requestQueue
	batch    []job // result of the last call of takeBatch(), kept to reuse its memory
}

// A jobKind is the kind of a job. A channel runs the jobs of a lower kind first.
type jobKind uint8

const (
	// jobInternal is a job that this device has queued for a connection. It is never
	// dropped, because a connection has at most two such jobs.
	jobInternal jobKind = iota
	// jobMessage is a datagram of an existing connection.
	jobMessage
	// jobRequest is a REQ or a SIDR_REQ, or a copy of one.
	jobRequest
)

// A requestClass is the class of a request. It depends on what its source has done.
type requestClass uint8

const (
	// requestOpen is the class of a source with half-open connections, which it has not
	// confirmed yet. Copies of requests are in this class too.
	requestOpen requestClass = iota
	// requestNew is the class of other sources. In a flood from forged addresses, nearly all
	// requests have it.
	requestNew
	// requestProven is the class of a source without half-open connections, of which an
	// address was validated not long ago; see provenSources.
	requestProven
	requestClasses // number of classes
)

// A job is a function that a channel calls. The channel drops the job if its target is
// closed.
type job struct {
	kind   jobKind
	target *jobTarget
	// run is the function. It finds its arguments in the job. A function literal would be
	// allocated on the heap if it used variables of its surrounding function. It is nil for
	// a request to a listener.
	run  func(*job)
	conn *madConn // connection of the job; nil in a job of a listener
	mad  wire.MAD // received datagram, in a job of enqueueMAD

	// The fields below are set only for a jobRequest.

	source  netip.Addr       // source of the request; see access.SourceOf
	class   requestClass     // class of the request
	request *incomingRequest // nil in the job for a copy of a request
	// dropped is called if the queue of requests drops this job to make room for another
	// source. It may be nil. The caller holds the multiplexer's lock.
	dropped func(*job)
}

// isNew reports whether the job is a request to a listener.
func (j *job) isNew() bool { return j.request != nil && j.request.listener != nil }

const (
	// maxMessages is the largest number of queued jobs of the kind jobMessage. Further jobs
	// of this kind are dropped. The peer retransmits the messages of dropped jobs.
	// Arbitrary.
	maxMessages = 1024
	// requestBatch is the largest number of requests that takeBatch() returns. Between two
	// calls of takeBatch(), madPort.OnReady can read many more datagrams than that. So a
	// flood of requests does not fill the socket.
	requestBatch = 16
)

// add queues a job. If the queue is full or closed, add() returns false.
func (b *inbox) add(j job) bool {
	switch {
	case b.closed, j.kind == jobMessage && len(b.jobs[jobMessage]) >= maxMessages:
		return false
	case j.kind == jobRequest:
		return b.requests.add(j)
	}
	b.jobs[j.kind] = append(b.jobs[j.kind], j)
	return true
}

// takeBatch removes jobs from the queues and returns them: at most requestBatch requests,
// and all jobs of the other kinds. The result is valid until the next call.
func (b *inbox) takeBatch() []job {
	clear(b.batch)
	b.batch = b.batch[:0]
	for kind, jobs := range b.jobs {
		b.batch = append(b.batch, jobs...)
		clear(jobs)
		b.jobs[kind] = jobs[:0]
	}
	b.batch = b.requests.take(b.batch, requestBatch)
	return b.batch
}

// room reports whether add() would queue a request of a source and a class. It also
// returns how many requests of the source wait.
func (b *inbox) room(source netip.Addr, class requestClass) (waiting int, ok bool) {
	waiting, ok = b.requests.room(source, class)
	return waiting, ok && !b.closed
}

func (b *inbox) waiting() (n int) {
	for _, jobs := range b.jobs {
		n += len(jobs)
	}
	return n + b.requests.total
}

// close drops all jobs.
func (b *inbox) close() { b.closed, b.jobs, b.requests = true, [jobRequest][]job{}, requestQueue{} }
