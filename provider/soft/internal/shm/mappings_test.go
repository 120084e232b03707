//go:build linux

package shm

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func newTestLimit() *MappingLimit {
	return NewMappingLimit(MaxMappings(), CountMappings, ByteLimits{}, new(counters.Set))
}

func newTestMapper() Mapper { return newTestLimit().For(clientProcess) }

// acquireCounted calls acquire. If acquire starts a count, acquireCounted waits for its
// end.
func (l *MappingLimit) acquireCounted() error {
	defer l.settle()
	return l.acquire(clientProcess, 1, false)
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
	limits := 0
	l.counts.OnLimit = func(counters.ID) { limits++ }
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
	l.mmapFailed(clientProcess, 1, unix.ENOMEM)
	require.Equal(t, room, l.mapped)
	require.EqualValues(t, 1002, l.counts.Load(counters.NoMappingsErr))
	require.Equal(t, 1002, limits)
}

// acquire does not wait for a count. Until the count ends, it allows at most mappingStep
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
		require.NoError(t, l.acquire(clientProcess, 1, false))
	}
	first := l.mapped
	require.NoError(t, l.acquire(clientProcess, 1, false))
	<-begun
	for l.mapped < first+mappingStep {
		require.NoError(t, l.acquire(clientProcess, 1, false))
	}
	require.ErrorIs(t, l.acquire(clientProcess, 1, false), verbs.ErrNoResources, "the last count does not allow more")
	require.Empty(t, begun, "one count at a time")
	close(done)
	l.settle()
	require.NoError(t, l.acquire(clientProcess, 1, false))
}

// The number of segments is limited even if /proc can not be read.
func TestMappingsUnknown(t *testing.T) {
	l := newTestLimit()
	l.systemMax, l.count = 800, func() (int, bool) { return 0, false }
	l.recount()
	for range 300 {
		require.NoError(t, l.acquire(clientProcess, 1, false))
	}
	require.Error(t, l.acquire(clientProcess, 1, false))
}

// CountMappings counts each mapped segment.
func TestCountMappings(t *testing.T) {
	require.GreaterOrEqual(t, MaxMappings(), 1024)
	before, ok := CountMappings()
	require.True(t, ok)
	maps := newTestLimit()
	const n = 100
	for range n {
		seg, err := newSegment(testGeometry, maps.For(clientProcess))
		require.NoError(t, err)
		defer seg.Close()
	}
	after, _ := CountMappings()
	// The Go runtime may map or unmap memory between two counts.
	require.InDelta(t, n, after-before, n/2)
	require.Equal(t, n, maps.mapped)
}

// A region or a segment beyond the limit of its process is not mapped, and counted. Other
// processes can still map memory.
func TestTooManyMappedBytes(t *testing.T) {
	page := uint64(os.Getpagesize())
	limit := NewMappingLimit(MaxMappings(), CountMappings, ByteLimits{Process: 5 * page, All: 10 * page}, new(counters.Set))
	limits := 0
	limit.counts.OnLimit = func(counters.ID) { limits++ }
	owner := newTestRegion(t, int(3*page), verbs.AccessAll)
	open := func(p Process) (*RemoteRegion, error) {
		fd, err := unix.FcntlInt(uintptr(owner.fd), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		return OpenRegion(fd, 7, limit.For(p))
	}
	before := openDescriptors(t)
	first, err := open(clientProcess)
	require.NoError(t, err)
	_, err = open(clientProcess)
	require.ErrorIs(t, err, errPeerLimit)
	_, err = newSegment(testGeometry, limit.For(clientProcess))
	require.ErrorIs(t, err, errPeerLimit)
	require.EqualValues(t, 2, limit.counts.Load(counters.MappedBytesErr))
	require.Equal(t, 2, limits)
	require.Equal(t, before, openDescriptors(t), "no descriptor is left")

	other, err := open(serverProcess)
	require.NoError(t, err)
	require.EqualValues(t, 8*page, limit.counts.Load(counters.PeerRegionBytes), "with the page of the trailer")
	first.Close()
	require.EqualValues(t, 4*page, limit.counts.Load(counters.PeerRegionBytes))
	again, err := open(clientProcess)
	require.NoError(t, err)
	other.Close()
	again.Close()
	require.Zero(t, limit.mapped)
	require.Zero(t, limit.bytes.all)
	require.Zero(t, limit.counts.Load(counters.PeerRegionBytes))
	require.Zero(t, limit.counts.Load(counters.SegmentBytes))
}
