//go:build linux

package madcm

import (
	"container/heap"
	"container/list"
	"net/netip"
)

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
	panic("connmgr: an empty queue has a job")
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
