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

// acquireCounted calls acquire, and waits for the end of the count that it has started.
func (l *mappingLimit) acquireCounted() error {
	defer l.settle()
	return l.Acquire()
}

// settle waits for the end of a count in progress.
func (l *mappingLimit) settle() {
	for l.busy() {
		runtime.Gosched()
	}
}

// busy reports whether the mappings of the process are being counted.
func (l *mappingLimit) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counting
}

// works requires that a WRITE on the queue pair succeeds.
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
		time.Sleep(time.Millisecond) // The goroutine of the shard executes the request.
	}
	require.Fail(t, "the peer does not answer")
}

// A listener that may map no more segments refuses the next connection, long before the
// kernel refuses a mapping to the Go runtime. Its other connections still work. When one
// of the other connections has ended, a new connection is accepted.
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

// If the dialing side may map no more segments, the dial fails, and the listening side
// gets a REJ.
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

// The limit also holds for queue pairs of one device that are connected without
// connection management.
func TestPairOutOfMappings(t *testing.T) {
	s := newParty(t)
	limitMappings(s, 1)
	_, err := s.p.dev.takeEnd(2, 3)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.Zero(t, s.p.dev.maps.mapped)
}

// Mappings are counted once for mappingStep segments. At the limit they are counted at
// most once in each mappingPause.
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

// No caller waits for a count. A limited number of segments may be mapped during a
// count.
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

// If /proc can not be read, the number of segments is limited nevertheless.
func TestMappingsUnknown(t *testing.T) {
	l := newMappingLimit(new(counters.Set))
	l.systemMax, l.count = 800, func() (int, bool) { return 0, false }
	l.recount()
	for range 300 {
		require.NoError(t, l.Acquire())
	}
	require.Error(t, l.Acquire())
}

// countMappings counts each mapped segment.
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
	// The Go runtime also maps and unmaps memory.
	require.InDelta(t, n, after-before, n/2)
	require.Equal(t, n, maps.mapped)
}
