//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sharedBuffers is the number of buffers of newSharedEnds. Arbitrary.
const sharedBuffers = 64

// newSharedEnds returns a shared receive queue with sharedBuffers buffers, and n ends
// that use the queue.
func newSharedEnds(first *end, n int) (*srq, []*end) {
	s, err := first.pd.CreateSRQ(&verbs.SRQAttr{CQ: first.cq, MaxWR: sharedBuffers, MaxSGE: 1})
	require.NoError(first.t, err)
	first.t.Cleanup(func() { require.NoError(first.t, s.Close()) })
	own := s.(*srq)
	own.fill(first.t, first.mr)
	return own, first.more(n, s)
}

// more returns n ends that share everything but the queue pair with e. The parameter s is
// nil or a shared receive queue.
func (e *end) more(n int, s verbs.SRQ) (ends []*end) {
	for range n {
		other := *e
		q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, SRQ: s,
			Caps: verbs.QPCaps{MaxSendWR: 4, MaxSendSGE: 1}})
		require.NoError(e.t, err)
		e.t.Cleanup(func() { require.NoError(e.t, q.Close()) })
		other.qp = q.(*qp)
		ends = append(ends, &other)
	}
	return ends
}

// fill posts receive buffers until the shared receive queue is full.
func (s *srq) fill(t testing.TB, mr verbs.MR) {
	for s.rq.tail-s.rq.head+s.rq.held < s.rq.depth {
		_, err := s.PostRecv([]verbs.RecvWR{{ID: 7, SGEs: []verbs.SGE{verbs.SGEOf(mr, 0, 4096)}}})
		require.NoError(t, err)
	}
}

// While there are four buffers for each queue pair, there are no shares. Otherwise a
// source may hold an eighth of the buffers that the messages of others do not hold, and
// at least one. BuffersPerQP takes the limit away.
func TestPartialShare(t *testing.T) {
	fill := func(b *partialBuffers, s *partialShare, size, qps int) int {
		for s.held < size && b.allows(s, size, qps) {
			s.held++
			b.held++
		}
		return s.held
	}
	var b partialBuffers
	first := b.join(oneSource(0))
	require.Same(t, first, b.join(oneSource(1)))
	require.Equal(t, 128, fill(&b, first, 1024, 1100))
	require.True(t, b.allows(first, 1024, 256), "there are four buffers for each queue pair")
	require.False(t, b.allows(first, 1024, 257))
	for i := range uint32(15) {
		s := b.join(access.LocalSource(1000+i, 0))
		require.LessOrEqual(t, fill(&b, s, 1024, 1100), 112)
	}
	require.Less(t, b.held, 1024-120, "16 sources leave (7/8)^16 of the buffers")
	b.unlimited = true
	require.True(t, b.allows(first, 1024, 1100))

	var small partialBuffers
	require.Equal(t, 1, fill(&small, small.join(oneSource(0)), 3, 8))
}

// SRQAttr.BuffersPerQP takes the limit away. It is not negative.
func TestBuffersPerQP(t *testing.T) {
	e := newEnd(t, openDevice(t, nil), 0, verbs.ProgressManual)
	for n, want := range []bool{false, true} {
		s, err := e.pd.CreateSRQ(&verbs.SRQAttr{CQ: e.cq, MaxWR: 4, MaxSGE: 1, BuffersPerQP: n})
		require.NoError(t, err)
		require.Equal(t, want, s.(*srq).partial.unlimited)
		require.NoError(t, s.Close())
	}
	var wrong *verbs.ParamError
	_, err := e.pd.CreateSRQ(&verbs.SRQAttr{CQ: e.cq, MaxWR: 4, MaxSGE: 1, BuffersPerQP: -1})
	require.ErrorAs(t, err, &wrong)
}

// A shareSim is a simulated network with a server and two hosts. The connections of the
// server share sharedBuffers receive buffers.
type shareSim struct {
	*sim
	server *end
	queue  *srq
	hosts  [2]*end
}

func newShareSim(t *testing.T) *shareSim {
	s := &shareSim{sim: newSimOf(t, 3, 1, netsim.Config{Delay: 10 * time.Microsecond})}
	s.server, s.hosts = s.newEnd(), [2]*end{s.newEnd(), s.newEnd()}
	s.queue, _ = newSharedEnds(s.server, 0)
	return s
}

// dial connects n ends of a host with the server.
func (s *shareSim) dial(host, n int, change func(*verbs.QPAttr)) (clients, served []*end) {
	clients, served = s.hosts[host].more(n, nil), s.server.more(n, s.queue)
	for i := range clients {
		s.join(clients[i], served[i], func(attr *verbs.QPAttr) { attr.PathMTU = verbs.MTU256 }, change)
	}
	return clients, served
}

// send posts a message of n bytes.
func (e *end) send(id uint64, n int) {
	e.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, n)}})
}

// serve completes messages, posts their buffers again, and returns how many there were.
// All must have arrived undamaged.
func (s *shareSim) serve() int {
	got := s.server.drainCQ()
	for _, wc := range got {
		require.Equal(s.t, verbs.StatusSuccess, wc.Status)
	}
	s.queue.fill(s.t, s.server.mr)
	return len(got)
}

// Each of many connections of one host sends only the first packet of a message, with a
// very long ACK timeout. The first packets hold the share of the host. Messages of
// another host, of one or several packets, always find a buffer.
func TestWireHalfSentMessagesHoldAShare(t *testing.T) {
	const conns, rounds = 2 * sharedBuffers, 100
	s := newShareSim(t)
	attackers, victims := s.dial(0, conns, func(attr *verbs.QPAttr) { attr.Timeout = 30 })
	toVictim := make(map[uint32]bool)
	for i, victim := range victims {
		toVictim[victim.qp.num] = true
		attackers[i].send(1, 1000)
	}
	s.lose = func(p wire.Packet) bool {
		return toVictim[p.BTH().DestQP()] && p.Opcode() != wire.SendFirst
	}
	attacker := access.RemoteSource(s.host(s.hosts[0]).addr)
	honest, _ := s.dial(1, 2, func(*verbs.QPAttr) {})
	done := 0
	for n := 0; done < 2*rounds; n++ {
		require.Less(t, n, simLimit)
		for _, wc := range s.hosts[1].drainCQ() {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
			done++
		}
		for i, e := range honest {
			if !e.qp.outstanding() && !e.qp.hasUnsent() {
				e.send(2, []int{1000, 1}[i])
			}
		}
		s.step()
		s.serve()
		if share := s.queue.partial.shares[attacker]; share != nil {
			require.LessOrEqual(t, share.held, sharedBuffers/partialShares)
		}
	}
	require.Zero(t, s.hosts[1].qp.shard.counts[counters.RcvdRNRErr].Load(), "the other host is never refused")
	require.Zero(t, s.server.qp.shard.counts[counters.PartialExpired].Load())
	// An RNR NAK answers one packet of an attacker, which is sent after ever longer waits.
	shard := s.server.qp.shard
	t.Logf("%v, %d first packets refused", time.Duration(s.now), shard.counts[counters.PartialRefused].Load())
	require.LessOrEqual(t, shard.counts[counters.PartialRefused].Load(), uint64(conns*maxRefusals))
}

// A host has far more connections than its share has buffers, and sends long messages on
// all of them at once. All arrive, even with a small RNR retry count.
func TestWireManyClientsOfOneHost(t *testing.T) {
	const conns, rounds, length = 200, 3, 16 * 256
	s := newShareSim(t)
	clients, _ := s.dial(0, conns, func(attr *verbs.QPAttr) { attr.RNRRetry, attr.MinRNRTimer = 4, 12 })
	sent, done, arrived := make(map[*end]int), 0, 0
	for n := 0; done < rounds*conns; n++ {
		require.Less(t, n, simLimit)
		for _, e := range clients {
			if !e.qp.outstanding() && !e.qp.hasUnsent() && sent[e] < rounds {
				e.send(1, length)
				sent[e]++
			}
		}
		s.step()
		for _, wc := range s.hosts[0].drainCQ() {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
			done++
		}
		arrived += s.serve()
	}
	require.Equal(t, rounds*conns, arrived)
	require.Zero(t, s.queue.partial.held)
	refused := s.server.qp.shard.counts[counters.PartialRefused].Load()
	t.Logf("%v, %d first packets refused", time.Duration(s.now), refused)
	require.NotZero(t, refused)
}
