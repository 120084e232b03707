//go:build linux

package soft

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// limitMappings allows a party to map n shared segments.
func limitMappings(s *party, n int) {
	maps := s.p.dev.maps
	maps.systemMax, maps.count = 2*n, func() (int, bool) { return maps.segments(), true }
	maps.recount()
}

// acquireCounted calls Acquire. If Acquire starts a count of the mappings, acquireCounted
// waits until the count ends.
func (l *mappingLimit) acquireCounted() error {
	defer l.settle()
	return l.Acquire()
}

// settle waits until no count of the mappings is in progress.
func (l *mappingLimit) settle() {
	for l.busy() {
		runtime.Gosched()
	}
}

// busy reports whether a count of the mappings is in progress.
func (l *mappingLimit) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counting
}

// works requires that a WRITE on a queue pair completes with success.
func works(t *testing.T, s *party, qp verbs.QP) {
	t.Helper()
	_, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}})
	require.NoError(t, err)
	var wc [1]verbs.WC
	for limit := time.Now().Add(safety); time.Now().Before(limit); {
		n, err := s.cq.Poll(wc[:])
		require.NoError(t, err)
		if n == 1 {
			require.Equal(t, verbs.StatusSuccess, wc[0].Status)
			return
		}
		// The goroutine of the shard executes the request in the meantime.
		time.Sleep(time.Millisecond)
	}
	require.Fail(t, "the peer does not answer")
}

// A listener that has reached its limit of shared segments refuses the next connection.
// Its other connections still work. When one of them ends, the listener accepts a new
// connection. The limit is far below the number of mappings at which the Go runtime could
// map no more memory.
func TestListenerOutOfMappings(t *testing.T) {
	const room = 3
	client, server := newParty(t), newParty(t)
	limitMappings(server, room)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	var active, passive [room]*cm.ID
	for i := range room {
		active[i], passive[i] = connectTo(client, server, l)
	}
	refused := client.connecting(cm.TCP, l.LocalAddr(), nil)
	request, _ := server.request(l)
	server.createQP(request)
	require.ErrorIs(t, request.Accept(nil), verbs.ErrNoResources)
	wantNoResources(client, refused)
	require.Equal(t, counted{"no_mappings_err": 1}, countsOf(t, server.p.dev))
	for _, id := range active {
		works(t, client, id.QP())
	}

	server.end(passive[0])
	client.want(cm.Disconnected, active[0])
	connectTo(client, server, l)
}

// If the dialing side has reached its limit of segments, the dial fails, and the
// listening side receives a REJ.
func TestDialOutOfMappings(t *testing.T) {
	client, server := newParty(t), newParty(t)
	limitMappings(client, 1)
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	first, its := connectTo(client, server, l)
	id := client.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.request(l)
	server.createQP(passive)
	require.NoError(t, passive.Accept(nil))
	ev := client.want(cm.ConnectError, id)
	require.ErrorIs(t, ev.Err, verbs.ErrNoResources)
	wantRejected(server, passive, cm.RejectNoResources, false, nil)
	require.Equal(t, counted{"no_mappings_err": 1}, countsOf(t, client.p.dev))
	works(t, client, first.QP())
	client.end(first)
	server.want(cm.Disconnected, its)
	connectTo(client, server, l)
}

// The limit also holds for two queue pairs of one device that are connected by Modify,
// without connection management.
func TestPairOutOfMappings(t *testing.T) {
	s := newParty(t)
	limitMappings(s, 1)
	_, err := s.p.dev.takeEnd(2, 3)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.Zero(t, s.p.dev.maps.mapped)
}

// One count of the mappings is enough for mappingStep segments. When the limit is
// reached, at most one count starts in each mappingPause.
func TestMappingsAreCountedRarely(t *testing.T) {
	const most = 40 * mappingStep
	now, others, counts := time.Unix(1, 0), 2*mappingStep, 0
	l := newMappingLimit(new(counters.Set))
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
	l.MmapFailed(unix.ENOMEM)
	require.Equal(t, room, l.mapped)
	require.EqualValues(t, 1002, l.counts[counters.NoMappingsErr].Load())
}

// Acquire does not wait for a count in progress. Until the count ends, it allows
// mappingStep segments more.
func TestMappingsAreCountedMeanwhile(t *testing.T) {
	l := newMappingLimit(new(counters.Set))
	begun, done := make(chan bool, 1), make(chan bool)
	l.systemMax = 40 * mappingStep
	l.count = func() (int, bool) {
		begun <- true
		select {
		case <-done:
		case <-time.After(safety):
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

// If /proc can not be read, there is a limit of segments nevertheless.
func TestMappingsUnknown(t *testing.T) {
	l := newMappingLimit(new(counters.Set))
	l.systemMax, l.count = 800, func() (int, bool) { return 0, false }
	l.recount()
	for range 300 {
		require.NoError(t, l.Acquire())
	}
	require.Error(t, l.Acquire())
}

// countMappings includes each segment that is mapped.
func TestCountMappings(t *testing.T) {
	require.GreaterOrEqual(t, maxMappings(), 1024)
	before, ok := countMappings()
	require.True(t, ok)
	maps := newMappingLimit(new(counters.Set))
	cfg := Config{RingBytes: shm.MinRingBytes, RingSlots: shm.MinRingSlots}
	const n = 100
	for range n {
		seg, err := shm.NewSegment(cfg.geometry(), maps)
		require.NoError(t, err)
		defer seg.Close()
	}
	after, _ := countMappings()
	// The Go runtime may map and unmap memory between two counts.
	require.InDelta(t, n, after-before, n/2)
	require.Equal(t, n, maps.mapped)
}
