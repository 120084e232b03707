//go:build linux

package connmgr

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// maxRequests is the largest number of jobs in a requestQueue. Arbitrary.
const maxRequests = 1024

// firstShare says how many of the jobs that take() returns come from requestQueue.first
// while other sources wait: firstShare - 1 of firstShare. Arbitrary.
const firstShare = 4

// A requestQueue has the queued jobs for requests. Each source has a queue of its own.
// take() takes one job from each queue in turn. So a source with few requests is not
// delayed by another source with many requests.
//
// A source whose requests have all been completed, because it has no half-open
// connection, does not wait for all sources of a flood: most turns belong to such
// sources. The others get the rest, because a flood can come from very many sources.
type requestQueue struct {
	sources map[netip.Addr]*requestSource // sources with jobs, by requestSource.key
	// Sources with jobs as *requestSource; take() takes the next job from the first one of
	// a list. A source is in the list first if its oldest job is marked so, and in the list
	// turns otherwise.
	first, turns list.List
	busiest      busyHeap[*requestSource] // sources with jobs; the source with the most jobs is first
	total        int                      // number of jobs
	spare        *requestSource           // memory for the next source without jobs; may be nil
}

// A requestSource has the jobs of one source; see access.SourceOf.
type requestSource struct {
	key   netip.Addr
	jobs  []job         // jobs of the source, the oldest first; never empty
	list  *list.List    // requestQueue.first or requestQueue.turns
	turn  *list.Element // element of this source in the list
	index int           // index of this source in requestQueue.busiest
}

// add queues a job for its source. If the queue is full, add drops the newest job of the
// source with the most jobs. If the dropped job is the new one, add returns false.
func (q *requestQueue) add(j job) bool {
	s := q.sources[j.source]
	if q.total >= maxRequests && !q.displace(s) {
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
		q.wait(s, j.first)
		heap.Push(&q.busiest, s)
	} else {
		s.jobs = append(s.jobs, j)
		heap.Fix(&q.busiest, s.index)
	}
	q.total++
	return true
}

// wait puts a source at the end of a list.
func (q *requestQueue) wait(s *requestSource, first bool) {
	if s.list = &q.turns; first {
		s.list = &q.first
	}
	s.turn = s.list.PushBack(s)
}

// room reports whether add() would queue a job of a source. It also returns how many jobs
// the source has.
func (q *requestQueue) room(source netip.Addr) (jobs int, ok bool) {
	s := q.sources[source]
	return s.count(), q.total < maxRequests || q.mayDisplace(s)
}

// mayDisplace reports whether some source has more jobs than s would have with a new
// job. The parameter s is nil for a source without jobs.
func (q *requestQueue) mayDisplace(s *requestSource) bool {
	return s.count()+1 < q.busiest[0].count()
}

// count returns the number of jobs of a source, which may be nil.
func (s *requestSource) count() int {
	if s == nil {
		return 0
	}
	return len(s.jobs)
}

// displace drops the newest job of the source with the most jobs, to make room for a new
// job of s. If mayDisplace forbids that, displace drops nothing and returns false.
func (q *requestQueue) displace(s *requestSource) bool {
	if !q.mayDisplace(s) {
		return false
	}
	busiest := q.busiest[0]
	last := len(busiest.jobs) - 1
	if j := &busiest.jobs[last]; j.dropped != nil {
		j.dropped(j)
	}
	busiest.jobs[last] = job{}
	busiest.jobs = busiest.jobs[:last]
	heap.Fix(&q.busiest, busiest.index)
	q.total--
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
			heap.Remove(&q.busiest, s.index)
			s.list.Remove(s.turn)
			delete(q.sources, s.key)
			s.jobs, q.spare = s.jobs[:0], s
			continue
		}
		s.jobs = s.jobs[1:]
		s.list.Remove(s.turn)
		q.wait(s, false)
		heap.Fix(&q.busiest, s.index)
	}
	return to
}

// next returns the source of the next job. The parameter n is the number of jobs that
// take() still has to take.
func (q *requestQueue) next(n int) *requestSource {
	from := &q.first
	if from.Len() == 0 || q.turns.Len() > 0 && n%firstShare == 0 {
		from = &q.turns
	}
	return from.Front().Value.(*requestSource)
}

func (s *requestSource) busierThan(other *requestSource) bool { return len(s.jobs) > len(other.jobs) }

func (s *requestSource) heapIndex() *int { return &s.index }
