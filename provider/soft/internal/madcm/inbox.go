//go:build linux

package madcm

import (
	"container/heap"
	"container/list"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
)

// A channel is the part of an event channel that belongs to the wire path: it implements
// connmgr.Worker. The lock of the channel guards it, and the multiplexer's lock guards
// the inbox.
type channel struct {
	*connmgr.Channel
	mux   *Mux
	inbox inbox
	ports portUsers
	// orphans are the connections whose IDs were destroyed before the peer has answered their
	// DREQ.
	orphans map[*conn]struct{}
	closed  bool // true after Close
}

// Serve implements connmgr.WireTransport.
func (mux *Mux) Serve(of *connmgr.Channel) connmgr.Worker {
	ch := &channel{Channel: of, mux: mux, orphans: make(map[*conn]struct{})}
	ch.initPorts()
	mux.mu.Lock()
	defer mux.mu.Unlock()
	mux.channels[of] = ch
	return ch
}

// channelOf returns the part of a channel that belongs to the wire path.
func (mux *Mux) channelOf(ch *connmgr.Channel) *channel {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	return mux.channels[ch]
}

// add queues a job. The job runs with the channel locked. If the queue is full or closed,
// add returns false. The caller holds the multiplexer's lock.
func (ch *channel) add(j job) bool {
	if !ch.inbox.add(j) {
		return false
	}
	ch.Wake()
	return true
}

// Work implements connmgr.Worker. It runs jobs of the inbox.
func (ch *channel) Work() (more bool) {
	jobs, more := ch.takeBatch()
	for n := range jobs {
		j := &jobs[n]
		if j.isNew() {
			j.request.admit(ch, j)
		} else if j.target.onChannel(ch, j) {
			j.run(j)
		}
		*j = job{}
	}
	return more
}

func (ch *channel) takeBatch() (jobs []job, more bool) {
	ch.mux.mu.Lock()
	defer ch.mux.mu.Unlock()
	jobs = ch.inbox.takeBatch()
	return jobs, ch.inbox.waiting() > 0
}

// Close implements connmgr.Worker. It releases the orphans.
func (ch *channel) Close() {
	for c := range ch.orphans {
		c.release()
	}
	ch.closed = true
	ch.closeUnusedPorts()
	ch.mux.mu.Lock()
	defer ch.mux.mu.Unlock()
	ch.inbox.close()
	delete(ch.mux.channels, ch.Channel)
}

// acceptsFrom reports whether a request may come from an address. A device with both paths
// refuses requests of this host on the wire path, because processes of this host must use
// the local path; see package udp, far_only.go.
func (ch *channel) acceptsFrom(a netip.Addr) bool {
	if !ch.mux.AlsoLocal {
		return true
	}
	own, err := ch.IsLocalAddr(a)
	return err == nil && !own
}

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
	conn *conn    // connection of the job; nil in a job of a listener
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
	// calls of takeBatch(), port.OnReady can read many more datagrams than that. So a
	// flood of requests does not fill the socket.
	requestBatch = 16
)

// add queues a job. If the queue is full or closed, add() returns false.
func (in *inbox) add(j job) bool {
	switch {
	case in.closed, j.kind == jobMessage && len(in.jobs[jobMessage]) >= maxMessages:
		return false
	case j.kind == jobRequest:
		return in.requests.add(j)
	}
	in.jobs[j.kind] = append(in.jobs[j.kind], j)
	return true
}

// takeBatch removes jobs from the queues and returns them: at most requestBatch requests,
// and all jobs of the other kinds. The result is valid until the next call.
func (in *inbox) takeBatch() []job {
	clear(in.batch)
	in.batch = in.batch[:0]
	for kind, jobs := range in.jobs {
		in.batch = append(in.batch, jobs...)
		clear(jobs)
		in.jobs[kind] = jobs[:0]
	}
	in.batch = in.requests.take(in.batch, requestBatch)
	return in.batch
}

// room reports whether add() would queue a request of a source and a class. It also
// returns how many requests of the source wait.
func (in *inbox) room(source netip.Addr, class requestClass) (waiting int, ok bool) {
	waiting, ok = in.requests.room(source, class)
	return waiting, ok && !in.closed
}

func (in *inbox) waiting() (n int) {
	for _, jobs := range in.jobs {
		n += len(jobs)
	}
	return n + in.requests.total
}

// close drops all jobs.
func (in *inbox) close() { in.closed, in.jobs, in.requests = true, [jobRequest][]job{}, requestQueue{} }

// A jobTarget is the part of a conn or listener that queues jobs. A job runs on the
// channel to which the ID belongs at that time.
type jobTarget struct {
	mux    *Mux
	ch     *channel // channel of the ID; written with the multiplexer's lock held
	closed bool     // true after closeTarget(); guarded by the multiplexer's lock
}

// enqueue queues a job of the target. The job will run with the channel locked. If there
// are too many jobs, the job is dropped and enqueue returns false. The caller holds the
// multiplexer's lock.
func (t *jobTarget) enqueue(j job) bool {
	j.target = t
	return t.ch.add(j)
}

// onChannel reports whether the job j may run on the locked channel ch. If the ID has
// moved to another channel, onChannel queues the job on that channel and returns false.
func (t *jobTarget) onChannel(ch *channel, j *job) bool {
	t.mux.mu.Lock()
	defer t.mux.mu.Unlock()
	return t.onLockedChannel(ch, j)
}

// onLockedChannel does the work of onChannel. The caller holds the multiplexer's lock.
func (t *jobTarget) onLockedChannel(ch *channel, j *job) bool {
	if t.closed {
		return false
	}
	if t.ch == ch {
		return true
	}
	if !t.ch.add(*j) && j.dropped != nil {
		j.dropped(j)
	}
	return false
}

// setChannel records that the ID has moved to the channel to. It returns the old channel.
// The caller holds the locks of both channels.
func (t *jobTarget) setChannel(to *channel) (from *channel) {
	t.mux.mu.Lock()
	defer t.mux.mu.Unlock()
	from, t.ch = t.ch, to
	return from
}

// closeTarget makes the channels drop all jobs of the target, including jobs that are
// already queued. The caller holds the multiplexer's lock.
func (t *jobTarget) closeTarget() { t.closed = true }

// maxRequests is the largest number of jobs in a requestQueue. Arbitrary.
const maxRequests = 1024

// classOrders has the order in which take() looks for a job in the classes. Two of four
// jobs go to the highest class, and one to each of the others, so that a flood in one
// class does not stop another one.
var classOrders = [...][requestClasses]requestClass{
	{requestOpen, requestNew, requestProven},
	{requestProven, requestNew, requestOpen},
	{requestNew, requestProven, requestOpen},
	{requestProven, requestNew, requestOpen},
}

// A requestQueue has the queued jobs for requests. Each source has a queue of its own.
// In a class, take() takes one job from each queue in turn. So a source with few requests
// is not delayed by another source with many requests.
type requestQueue struct {
	sources map[netip.Addr]*requestSource // sources with jobs, by requestSource.key
	// Sources with jobs as *requestSource, by class; take() takes the next job of a class
	// from the first one.
	turns   [requestClasses]list.List
	busiest busyHeap[*requestSource] // sources with jobs; the source with the most jobs is first
	total   int                      // number of jobs
	spare   *requestSource           // memory for the next source without jobs; may be nil
}

// A requestSource has the jobs of one source; see access.SourceOf.
type requestSource struct {
	key   netip.Addr
	jobs  []job         // jobs of the source, the oldest first; never empty
	class requestClass  // class of the oldest job, or requestOpen after the first turn
	turn  *list.Element // element of this source in requestQueue.turns
	index int           // index of this source in requestQueue.busiest
}

// add queues a job for its source. If the queue is full, add drops another job, or
// returns false.
func (q *requestQueue) add(j job) bool {
	s := q.sources[j.source]
	if q.total >= maxRequests && !q.displace(s, j.class) {
		return false
	}
	if s == nil {
		if s, q.spare = q.spare, nil; s == nil {
			s = new(requestSource)
		}
		s.key, s.jobs = j.source, append(s.jobs, j)
		if q.sources == nil {
			q.sources = make(map[netip.Addr]*requestSource)
		}
		q.sources[s.key] = s
		q.wait(s, j.class)
		heap.Push(&q.busiest, s)
	} else {
		s.jobs = append(s.jobs, j)
		heap.Fix(&q.busiest, s.index)
	}
	q.total++
	return true
}

// wait puts a source at the end of its class.
func (q *requestQueue) wait(s *requestSource, class requestClass) {
	s.class = class
	s.turn = q.turns[class].PushBack(s)
}

// room reports whether add() would queue a job of a source and a class. It also returns
// how many jobs the source has.
func (q *requestQueue) room(source netip.Addr, class requestClass) (jobs int, ok bool) {
	s := q.sources[source]
	return s.count(), q.total < maxRequests || q.victim(s, class) != nil
}

// count returns the number of jobs of a source, which may be nil.
func (s *requestSource) count() int {
	if s == nil {
		return 0
	}
	return len(s.jobs)
}

// victim returns the source whose newest job is dropped to make room in a full queue for
// a job of s, or nil. The parameter s is nil for a source without jobs. The victim is the
// source with the most jobs, if it has more than s would have with the new job. Otherwise
// the first job of a proven source displaces the newest source of the class requestNew.
func (q *requestQueue) victim(s *requestSource, class requestClass) *requestSource {
	if busiest := q.busiest[0]; busiest.count() > s.count()+1 {
		return busiest
	}
	if newest := q.turns[requestNew].Back(); newest != nil && s == nil && class == requestProven {
		return newest.Value.(*requestSource)
	}
	return nil
}

// displace drops the newest job of the victim, to make room for a job of s. If there is
// no victim, displace returns false.
func (q *requestQueue) displace(s *requestSource, class requestClass) bool {
	victim := q.victim(s, class)
	if victim == nil {
		return false
	}
	last := len(victim.jobs) - 1
	if j := &victim.jobs[last]; j.dropped != nil {
		j.dropped(j)
	}
	victim.jobs[last] = job{}
	q.total--
	if last == 0 {
		q.remove(victim)
		return true
	}
	victim.jobs = victim.jobs[:last]
	heap.Fix(&q.busiest, victim.index)
	return true
}

// take removes up to n jobs from the queue. It appends them to its parameter to, and
// returns the result.
func (q *requestQueue) take(to []job, n int) []job {
	for n = min(n, q.total); n > 0; n-- {
		s := q.next(n)
		to = append(to, s.jobs[0])
		q.total--
		s.jobs[0] = job{}
		if len(s.jobs) == 1 {
			q.remove(s)
			continue
		}
		s.jobs = s.jobs[1:]
		q.turns[s.class].Remove(s.turn)
		q.wait(s, requestOpen)
		heap.Fix(&q.busiest, s.index)
	}
	return to
}

// next returns the source of the next job. The parameter n is the number of jobs that
// take() still has to take.
func (q *requestQueue) next(n int) *requestSource {
	for _, class := range classOrders[n%len(classOrders)] {
		if first := q.turns[class].Front(); first != nil {
			return first.Value.(*requestSource)
		}
	}
	panic("madcm: an empty queue has a job")
}

// remove removes a source whose last job was taken or dropped, and keeps its memory.
func (q *requestQueue) remove(s *requestSource) {
	heap.Remove(&q.busiest, s.index)
	q.turns[s.class].Remove(s.turn)
	delete(q.sources, s.key)
	s.jobs, q.spare = s.jobs[:0], s
}

func (s *requestSource) busierThan(other *requestSource) bool { return len(s.jobs) > len(other.jobs) }

func (s *requestSource) heapIndex() *int { return &s.index }

// A busySource is an element of a busyHeap.
type busySource[S any] interface {
	// busierThan reports whether this source is before another one in the heap.
	busierThan(other S) bool
	// heapIndex points to the index of this source in the heap.
	heapIndex() *int
}

// A busyHeap orders sources, the busiest first. It implements heap.Interface.
type busyHeap[S busySource[S]] []S

// Len implements heap.Interface.
func (h busyHeap[S]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h busyHeap[S]) Less(i, j int) bool { return h[i].busierThan(h[j]) }

// Swap implements heap.Interface.
func (h busyHeap[S]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].heapIndex(), *h[j].heapIndex() = i, j
}

// Push implements heap.Interface.
func (h *busyHeap[S]) Push(x any) {
	s := x.(S)
	*s.heapIndex() = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *busyHeap[S]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = *new(S)
	*h = (*h)[:last]
	return s
}
