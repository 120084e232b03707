//go:build linux

package madcm

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// The jobs of connections run before requests, and are not dropped when there are too
// many requests.
func TestInboxPriorities(t *testing.T) {
	var b inbox
	var done []jobKind
	newJob := func(kind jobKind) job { return job{kind: kind, run: func(*job) { done = append(done, kind) }} }
	taken := 0
	for range 2 * maxRequests {
		if b.add(newJob(jobRequest)) {
			taken++
		}
	}
	require.Equal(t, maxRequests, taken)
	require.True(t, b.add(newJob(jobMessage)))
	for range 2 * maxRequests {
		require.True(t, b.add(newJob(jobInternal)))
	}
	round := func() []jobKind {
		done = nil
		for _, j := range b.takeBatch() {
			j.run(&j)
		}
		return done
	}
	first := round()
	require.Len(t, first, 2*maxRequests+1+requestBatch)
	require.Equal(t, jobInternal, first[2*maxRequests-1])
	require.Equal(t, jobMessage, first[2*maxRequests])
	require.Equal(t, jobRequest, first[2*maxRequests+1])

	// The new message runs before the queued requests.
	require.True(t, b.add(newJob(jobMessage)))
	next := round()
	require.Len(t, next, 1+requestBatch)
	require.Equal(t, jobMessage, next[0])
	for b.waiting() > 0 {
		taken -= len(round())
	}
	require.Equal(t, 2*requestBatch, taken)
}

// A queuedRequest identifies a job of a requestQueue by its source and its number.
type queuedRequest struct {
	source byte
	number int
}

// A queueFixture has a requestQueue and the requests that were taken from it or dropped.
type queueFixture struct {
	queue          requestQueue
	class          requestClass // class of the jobs that add() queues
	taken, dropped []queuedRequest
}

// add adds a request. It returns false if the request is dropped at once.
func (f *queueFixture) add(r queuedRequest) bool {
	return f.queue.add(job{
		kind: jobRequest, class: f.class, source: netip.AddrFrom4([4]byte{192, 0, 2, r.source}),
		run:     func(*job) { f.taken = append(f.taken, r) },
		dropped: func(*job) { f.dropped = append(f.dropped, r) },
	})
}

func (f *queueFixture) take(n int) (taken []queuedRequest) {
	f.taken = nil
	for _, j := range f.queue.take(nil, n) {
		j.run(&j)
	}
	return f.taken
}

// The queue takes requests of different sources in turn.
func TestRequestQueueTurns(t *testing.T) {
	var f queueFixture
	for n := range 3 {
		require.True(t, f.add(queuedRequest{1, n}))
	}
	require.True(t, f.add(queuedRequest{2, 0}))
	require.Equal(t, []queuedRequest{{1, 0}, {2, 0}}, f.take(2))
	require.True(t, f.add(queuedRequest{3, 0}))
	require.Equal(t, []queuedRequest{{1, 1}, {3, 0}, {1, 2}}, f.take(5))
	require.Empty(t, f.take(1))
	require.Empty(t, f.queue.sources)
}

// Most turns belong to proven sources, and some to each other class. After its first
// request, a source waits like those with half-open connections.
func TestRequestQueueClasses(t *testing.T) {
	var f queueFixture
	for f.class = range requestClasses {
		for n := range byte(50) {
			source := byte(f.class)*50 + n
			require.True(t, f.add(queuedRequest{source, 0}))
			require.True(t, f.add(queuedRequest{source, 1}))
		}
	}
	require.Equal(t, []queuedRequest{{0, 0}, {100, 0}, {50, 0}, {101, 0}, {1, 0}, {102, 0}, {51, 0}, {103, 0}}, f.take(8))
	rest := f.take(maxRequests)
	require.Len(t, rest, 292)
	require.Equal(t, 1, rest[291].number)
}

// In a full queue, the first request of a proven source displaces the newest source that
// has shown nothing.
func TestRequestQueueProven(t *testing.T) {
	f := queueFixture{class: requestNew}
	at := func(n int) netip.Addr { return testSource(n) }
	add := func(n int, class requestClass) bool {
		return f.queue.add(job{kind: jobRequest, source: at(n), class: class, dropped: func(*job) { f.dropped = append(f.dropped, queuedRequest{number: n}) }})
	}
	for n := range maxRequests {
		require.True(t, add(n, requestNew))
	}
	require.False(t, add(maxRequests, requestNew))
	require.True(t, add(maxRequests+1, requestProven))
	require.Equal(t, []queuedRequest{{number: maxRequests - 1}}, f.dropped)
	require.False(t, add(maxRequests+1, requestProven), "its second request displaces nothing")
	jobs := f.queue.take(nil, 2)
	require.Equal(t, at(maxRequests+1), jobs[1].source)
	require.Equal(t, maxRequests-2, f.queue.total)
	require.Len(t, f.queue.take(nil, maxRequests), maxRequests-2)
	require.Empty(t, f.queue.sources)
	require.Empty(t, f.queue.busiest)
}

// When the queue is full, a request of a source with few requests displaces the newest
// request of the source with the most requests.
func TestRequestQueueDisplaces(t *testing.T) {
	var f queueFixture
	for n := range maxRequests {
		require.True(t, f.add(queuedRequest{1, n}))
	}
	require.False(t, f.add(queuedRequest{1, maxRequests}))
	require.Empty(t, f.dropped)
	require.True(t, f.add(queuedRequest{2, 0}))
	require.Equal(t, []queuedRequest{{1, maxRequests - 1}}, f.dropped)
	require.Equal(t, []queuedRequest{{1, 0}, {2, 0}, {1, 1}}, f.take(3))
}

// Two sources that fill the queue get equal parts of it.
func TestRequestQueueParts(t *testing.T) {
	var f queueFixture
	for n := range maxRequests {
		f.add(queuedRequest{1, n})
	}
	for n := range maxRequests {
		require.Equal(t, n < maxRequests/2, f.add(queuedRequest{2, n}), "request %d", n)
	}
	require.Len(t, f.dropped, maxRequests/2)
}

// Every request is taken once or dropped once. The requests of one source are taken in
// the order in which they were added.
func TestRequestQueueRandom(t *testing.T) {
	var f queueFixture
	r := rand.New(rand.NewPCG(1, 2))
	added, refused, taken := 0, 0, 0
	next := make(map[byte]int) // lowest possible number of the next request of each source
	for range 50_000 {
		// A low source number is more likely than a high one.
		source := byte(r.IntN(1 + r.IntN(64)))
		added++
		if !f.add(queuedRequest{source, added}) {
			refused++
		}
		if r.IntN(64) == 0 {
			for _, got := range f.take(r.IntN(64)) {
				require.GreaterOrEqual(t, got.number, next[got.source])
				next[got.source] = got.number + 1
				taken++
			}
		}
		require.LessOrEqual(t, f.queue.total, maxRequests)
	}
	taken += len(f.take(maxRequests))
	require.Equal(t, added, refused+taken+len(f.dropped))
	require.Zero(t, f.queue.total)
	require.Empty(t, f.queue.busiest)
	for class := range f.queue.turns {
		require.Zero(t, f.queue.turns[class].Len())
	}
	require.NotZero(t, len(f.dropped))
	require.NotZero(t, refused)
}
