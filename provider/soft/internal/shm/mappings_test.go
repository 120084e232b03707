//go:build linux

package shm

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func newTestLimit() *MappingLimit {
	return NewMappingLimit(MaxMappings(), CountMappings, new(counters.Set))
}

// acquireCounted calls Acquire. If Acquire starts a count, acquireCounted waits for its
// end.
func (l *MappingLimit) acquireCounted() error {
	defer l.settle()
	return l.Acquire()
}

// settle waits until no count of the mappings is in progress.
func (l *MappingLimit) settle() {
	for l.busy() {
		runtime.Gosched()
	}
}

func (l *MappingLimit) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counting
}

// The mappings are counted once per mappingStep segments. If the limit is reached, they
// are counted once per mappingPause.
func TestMappingsAreCountedRarely(t *testing.T) {
	const most = 40 * mappingStep
	now, others, counts := time.Unix(1, 0), 2*mappingStep, 0
	l := newTestLimit()
	l.systemMax, l.now = most, func() time.Time { return now }
	l.count = func() (int, bool) { counts++; return others + l.segments(), true }
	l.recount()
	const room = (most - 2*mappingStep) / 2
	for range room {
		require.NoError(t, l.acquireCounted())
	}
	require.Equal(t, room/mappingStep, counts)
	counts = 0
	for range 1000 {
		require.ErrorIs(t, l.acquireCounted(), verbs.ErrNoResources)
	}
	require.LessOrEqual(t, counts, 1)
	others = 0
	now = now.Add(mappingPause)
	require.Error(t, l.acquireCounted(), "the last count holds until the next one is done")
	require.NoError(t, l.acquireCounted(), "other parts have released their mappings")
	l.mmapFailed(unix.ENOMEM)
	require.Equal(t, room, l.mapped)
	require.EqualValues(t, 1002, l.counts[counters.NoMappingsErr].Load())
}

// Acquire does not wait for a count. Until the count ends, it allows at most mappingStep
// more segments.
func TestMappingsAreCountedMeanwhile(t *testing.T) {
	l := newTestLimit()
	begun, done := make(chan bool, 1), make(chan bool)
	l.systemMax = 40 * mappingStep
	l.count = func() (int, bool) {
		begun <- true
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("take has waited for the count")
		}
		return mappingStep, true
	}
	for l.mapped < l.nextCount {
		require.NoError(t, l.Acquire())
	}
	first := l.mapped
	require.NoError(t, l.Acquire())
	<-begun
	for l.mapped < first+mappingStep {
		require.NoError(t, l.Acquire())
	}
	require.ErrorIs(t, l.Acquire(), verbs.ErrNoResources, "the last count does not allow more")
	require.Empty(t, begun, "one count at a time")
	close(done)
	l.settle()
	require.NoError(t, l.Acquire())
}

// The number of segments is limited even if /proc can not be read.
func TestMappingsUnknown(t *testing.T) {
	l := newTestLimit()
	l.systemMax, l.count = 800, func() (int, bool) { return 0, false }
	l.recount()
	for range 300 {
		require.NoError(t, l.Acquire())
	}
	require.Error(t, l.Acquire())
}

// CountMappings counts each mapped segment.
func TestCountMappings(t *testing.T) {
	require.GreaterOrEqual(t, MaxMappings(), 1024)
	before, ok := CountMappings()
	require.True(t, ok)
	maps := newTestLimit()
	const n = 100
	for range n {
		seg, err := newSegment(testGeometry, maps)
		require.NoError(t, err)
		defer seg.Close()
	}
	after, _ := CountMappings()
	// The Go runtime may map or unmap memory between two counts.
	require.InDelta(t, n, after-before, n/2)
	require.Equal(t, n, maps.mapped)
}
