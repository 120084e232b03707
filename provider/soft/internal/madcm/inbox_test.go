//go:build linux

package madcm

import (
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
