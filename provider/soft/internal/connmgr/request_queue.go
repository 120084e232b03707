//go:build linux

package connmgr

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// maxRequests is the largest number of jobs in a requestQueue. Arbitrary.
const maxRequests = 1024

// A requestQueue has the queued jobs for requests. Each source has a queue of its own.
// take() takes one job from each queue in turn. So a source with few requests is not
// delayed by another source with many requests.
type requestQueue struct {
	sources map[netip.Addr]*requestSource // sources with jobs, by requestSource.key
	// sources with jobs as *requestSource; take() takes the next job from the first one
	turns   list.List
	busiest busyHeap[*requestSource] // sources with jobs; the source with the most jobs is first
	total   int                      // number of jobs
	spare   *requestSource           // memory for the next source without jobs; may be nil
}

// A requestSource has the jobs of one source; see access.SourceOf.
type requestSource struct {
	key   netip.Addr
	jobs  []job         // jobs of the source, the oldest first; never empty
	turn  *list.Element // element of this source in requestQueue.turns
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
		s.turn = q.turns.PushBack(s)
		heap.Push(&q.busiest, s)
	} else {
		s.jobs = append(s.jobs, j)
		heap.Fix(&q.busiest, s.index)
	}
	q.total++
	return true
}

// displace drops the newest job of the source with the most jobs, to make room for a new
// job of s. If no source has more jobs than s would have with the new job, displace drops
// nothing and returns false. The parameter s is nil for a source without jobs.
func (q *requestQueue) displace(s *requestSource) bool {
	count := 0
	if s != nil {
		count = len(s.jobs)
	}
	busiest := q.busiest[0]
	last := len(busiest.jobs) - 1
	if count+1 >= len(busiest.jobs) {
		return false
	}
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
		s := q.turns.Front().Value.(*requestSource)
		to = append(to, s.jobs[0])
		q.total--
		s.jobs[0] = job{}
		if len(s.jobs) == 1 {
			heap.Remove(&q.busiest, s.index)
			q.turns.Remove(s.turn)
			delete(q.sources, s.key)
			s.jobs, q.spare = s.jobs[:0], s
			continue
		}
		s.jobs = s.jobs[1:]
		q.turns.MoveToBack(s.turn)
		heap.Fix(&q.busiest, s.index)
	}
	return to
}

func (s *requestSource) busierThan(other *requestSource) bool { return len(s.jobs) > len(other.jobs) }

func (s *requestSource) heapIndex() *int { return &s.index }
