//go:build linux

package rcpath

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// sharedByAll is the number of buffers of the server in a shareSim. Arbitrary.
	sharedByAll = 64
	// The incomplete messages of one host hold at most 1/sharesOfAll of them.
	sharesOfAll = 8
	// longerWaits is how many refusals in a row make the time of RNR NAKs longer.
	longerWaits = 8
)

// A shareSim is a simulated network with a server and two hosts. The connections of the
// server share sharedByAll receive buffers.
type shareSim struct {
	*qptest.Sim
	server *qptest.End
	queue  verbs.SRQ
	hosts  [2]*qptest.End
}

func newShareSim(t *testing.T) *shareSim {
	s := &shareSim{Sim: newWireSim(t, 3, 1, netsim.Config{Delay: 10 * time.Microsecond})}
	s.server, s.hosts = s.NewEnd(), [2]*qptest.End{s.NewEnd(), s.NewEnd()}
	var err error
	s.queue, err = s.server.PD.CreateSRQ(&verbs.SRQAttr{CQ: s.server.CQ, MaxWR: sharedByAll, MaxSGE: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.queue.Close()) })
	s.fill()
	return s
}

// fill posts receive buffers until the shared receive queue is full.
func (s *shareSim) fill() {
	for {
		_, err := s.queue.PostRecv([]verbs.RecvWR{{ID: 7, SGEs: []verbs.SGE{verbs.SGEOf(s.server.MR, 0, 4096)}}})
		if errors.Is(err, verbs.ErrQueueFull) {
			return
		}
		require.NoError(s.T, err)
	}
}

// incomplete returns the number of buffers that incomplete messages hold.
func incomplete(served []*qptest.End) (n int) {
	for _, e := range served {
		n += e.QP.ReceiveBuffers()
	}
	return n
}

// dial connects n ends of a host with the server.
func (s *shareSim) dial(host, n int, change func(*verbs.QPAttr)) (clients, served []*qptest.End) {
	clients, served = s.hosts[host].More(n, nil), s.server.More(n, s.queue)
	for i := range clients {
		s.Join(clients[i], served[i], func(attr *verbs.QPAttr) { attr.PathMTU = verbs.MTU256 }, change)
	}
	return clients, served
}

// serve completes messages, posts their buffers again, and returns how many there were.
// All must have arrived undamaged.
func (s *shareSim) serve() int {
	got := s.server.DrainCQ()
	for _, wc := range got {
		require.Equal(s.T, verbs.StatusSuccess, wc.Status)
	}
	s.fill()
	return len(got)
}

// Each of many connections of one host sends only the first packet of a message, with a
// very long ACK timeout. The first packets hold the share of the host. Messages of
// another host, of one or several packets, always find a buffer.
func TestWireHalfSentMessagesHoldAShare(t *testing.T) {
	const conns, rounds = 2 * sharedByAll, 100
	s := newShareSim(t)
	attackers, victims := s.dial(0, conns, func(attr *verbs.QPAttr) { attr.Timeout = 30 })
	toVictim := make(map[uint32]bool)
	for i, victim := range victims {
		toVictim[victim.QP.Num()] = true
		attackers[i].Send(1, 1000)
	}
	s.Lose = func(p wire.Packet) bool {
		return toVictim[p.BTH().DestQP()] && p.Opcode() != wire.SendFirst
	}
	honest, _ := s.dial(1, 2, func(*verbs.QPAttr) {})
	done := 0
	for n := 0; done < 2*rounds; n++ {
		require.Less(t, n, qptest.SimLimit)
		for _, wc := range s.hosts[1].DrainCQ() {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
			done++
		}
		for i, e := range honest {
			if !e.QP.Outstanding() && !e.QP.HasUnsent() {
				e.Send(2, []int{1000, 1}[i])
			}
		}
		s.Step()
		s.serve()
		require.LessOrEqual(t, incomplete(victims), sharedByAll/sharesOfAll)
	}
	require.Zero(t, s.hosts[1].QP.Shard.Counts.Load(counters.RcvdRNRErr), "the other host is never refused")
	require.Zero(t, s.server.QP.Shard.Counts.Load(counters.PartialExpired))
	// An RNR NAK answers one packet of an attacker, which is sent after ever longer waits.
	shard := s.server.QP.Shard
	t.Logf("%v, %d first packets refused", time.Duration(s.Now), shard.Counts.Load(counters.PartialRefused))
	require.LessOrEqual(t, shard.Counts.Load(counters.PartialRefused), uint64(conns*longerWaits))
}

// A host has far more connections than its share has buffers, and sends long messages on
// all of them at once. All arrive, even with a small RNR retry count.
func TestWireManyClientsOfOneHost(t *testing.T) {
	const conns, rounds, length = 200, 3, 16 * 256
	s := newShareSim(t)
	clients, served := s.dial(0, conns, func(attr *verbs.QPAttr) { attr.RNRRetry, attr.MinRNRTimer = 4, 12 })
	sent, done, arrived := make(map[*qptest.End]int), 0, 0
	for n := 0; done < rounds*conns; n++ {
		require.Less(t, n, qptest.SimLimit)
		for _, e := range clients {
			if !e.QP.Outstanding() && !e.QP.HasUnsent() && sent[e] < rounds {
				e.Send(1, length)
				sent[e]++
			}
		}
		s.Step()
		for _, wc := range s.hosts[0].DrainCQ() {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
			done++
		}
		arrived += s.serve()
	}
	require.Equal(t, rounds*conns, arrived)
	require.Zero(t, incomplete(served))
	refused := s.server.QP.Shard.Counts.Load(counters.PartialRefused)
	t.Logf("%v, %d first packets refused", time.Duration(s.Now), refused)
	require.NotZero(t, refused)
}

// Nobody waits for a buffer of the queue pair's own receive queue. So the connection of a
// message that has stalled in it does not end.
func TestWireHalfSentMessage(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 4096)
	p.send(p.request(wire.SendFirst, 0, scriptMTU))
	p.advance(24 * time.Hour)
	p.wantQuiet("nobody waits for the buffer")
	p.send(p.request(wire.SendLast, 1, 1))
	p.wantDone("the message is complete", verbs.StatusSuccess, 1)
}

// A FIRST or MIDDLE packet must fill the path MTU (IBTA vol. 1, 9.7.4.1.6). A shorter
// packet is an invalid request and takes no receive buffer.
func TestWireShortFirstPacket(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 4096)
	p.send(p.request(wire.SendFirst, 0, 1))
	p.wantSyndrome("the packet is too short", wire.NAK(wire.NAKInvalidRequest), 0)
	p.wantDone("", verbs.StatusWRFlushErr, 1)
}
