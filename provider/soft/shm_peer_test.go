//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// peersOf returns the shared memory of a shard.
func peersOf(s *shard) *shmPeers { return s.engine.host.(*device).waysOf(s).local }

// newNeighbors makes a second pair of connected ends on the shards of the first pair.
func newNeighbors(t testing.TB, x, y *end) (a, b *end) {
	d := deviceOf(x.qp)
	a, b = newEnd(t, d, x.cq.(*cq).vector, verbs.ProgressManual), newEnd(t, d, y.cq.(*cq).vector, verbs.ProgressManual)
	a.connect(b, nil)
	b.connect(a, nil)
	becomeReady(a, b)
	return a, b
}

// All connections between two shards share one mapping. A further connection needs
// descriptors only for connection management.
func TestConnectionsShareMemory(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	connectTo(client, server, l)
	before := peerproc.OpenDescriptors(t)
	const more = 10
	for range more {
		connectTo(client, server, l)
	}
	for _, s := range []*party{client, server} {
		sh := shardOf(s)
		sh.enter()
		require.Len(t, peersOf(sh).byEnd, 1)
		for _, p := range peersOf(sh).byEnd {
			require.Equal(t, 1+more, p.conns.len())
		}
		sh.leave()
	}
	require.LessOrEqual(t, peerproc.OpenDescriptors(t)-before, 2*more, "each side has one socket for each connection")
}

// Memory without connections is kept for unusedTime, and a new connection uses it.
func TestUnusedMemoryIsKept(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	connect := func() (active, passive *cm.ID) {
		active, passive = connectTo(client, server, l)
		works(t, client, active.QP())
		return active, passive
	}
	active, passive := connect()
	first := endOf(active)
	client.End(active)
	server.Want(cm.Disconnected, passive)
	server.End(passive)
	active, passive = connect()
	require.Same(t, first, endOf(active))
	client.End(active)
	server.Want(cm.Disconnected, passive)
	server.End(passive)

	sh := shardOf(client)
	sh.enter()
	require.Equal(t, 1, peersOf(sh).unused)
	clock := sh.clock
	sh.clock = func() time.Duration { return clock() + unusedTime }
	sh.fireTimers()
	require.Empty(t, peersOf(sh).byEnd)
	require.Zero(t, peersOf(sh).unused)
	sh.leave()
	active, _ = connect()
	require.NotSame(t, first, endOf(active))
}

// endOf returns the end of the memory that a connected ID uses.
func endOf(id *cm.ID) *shm.End {
	q := id.QP().(*qp)
	q.shard.enter()
	defer q.shard.leave()
	return q.path.(*shmConn).p.end
}

// A shard keeps at most maxUnused segments without connections. So clients that connect
// and disconnect can not use up its mappings.
func TestUnusedMemoryIsLimited(t *testing.T) {
	d := openDevice(t, &Config{Vectors: maxUnused + 3})
	s := newEnd(t, d, 0, verbs.ProgressManual).qp.shard
	for i := range maxUnused + 2 {
		a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, i+1, verbs.ProgressManual)
		a.connect(b, nil)
		b.connect(a, nil)
		require.NoError(t, a.qp.Close())
		require.NoError(t, b.qp.Close())
		require.LessOrEqual(t, len(peersOf(s).byEnd), maxUnused)
		require.Equal(t, peersOf(s).unused, len(peersOf(s).byEnd))
	}
	require.Len(t, peersOf(s).byEnd, maxUnused)
}

// A queue pair without receive buffers does not delay other queue pairs of its shard.
// After the RNR timer, its requests are sent again. They arrive in order, and only once.
func TestRNRHoldsUpNobody(t *testing.T) {
	x, y := newPair(t, openDevice(t, &Config{Vectors: 2}), verbs.ProgressManual)
	a, b := newNeighbors(t, x, y)
	advance := x.stopClock()
	send := func(e *end, id uint64) {
		e.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte{byte(id)}})
	}
	const messages = 20
	for i := range uint64(messages) {
		send(x, i)
		b.recv(i, int(i), 1)
		send(a, i)
	}
	for i, wc := range b.wait(messages, a) {
		require.EqualValues(t, i, wc.ID)
	}
	a.wait(messages, b)
	require.Empty(t, x.pollN(10))
	require.True(t, x.qp.rnr.waiting)
	for i := range uint64(messages) {
		y.recv(i, int(i), 1)
	}
	require.Empty(t, y.pollN(10), "the requests behind the refused one were dropped")
	advance(verbs.RNRDelay(1))
	for i, wc := range y.wait(messages, x) {
		require.EqualValues(t, i, wc.ID)
		require.Equal(t, byte(i), y.mr.Bytes()[i])
	}
	for i, wc := range x.wait(messages, y) {
		require.EqualValues(t, i, wc.ID)
		require.Equal(t, verbs.StatusSuccess, wc.Status)
	}
}

// When a queue pair stops, only the requests that it has executed succeed. Consumed
// slots do not count as executed.
func TestStoppedPeerConfirmsNothing(t *testing.T) {
	x, y := newPair(t, openDevice(t, &Config{Vectors: 2}), verbs.ProgressManual)
	a, b := newNeighbors(t, x, y)
	wait := x.waiter()
	send := func(id uint64) {
		x.post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("x")})
	}
	y.recv(1, 0, 10)
	y.recv(2, 0, 10)
	send(1)
	y.wait(1)
	require.NoError(t, y.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	send(2)
	b.recv(7, 0, 10)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.wait(1, a)
	a.wait(1, b)
	got := x.pollN(10)
	require.Len(t, got, 1)
	require.EqualValues(t, 1, got[0].ID)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	got = wait(verbs.AckTimeout(14) * (8 + 1))
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusRetryExcErr, got[0].Status)
}

// The connections that wait for room in a full ring send in turn.
func TestFullRingIsSharedInTurn(t *testing.T) {
	const size = 64 << 10
	x, y := newPair(t, openDevice(t, &Config{Vectors: 2, RingBytes: 16 << 10}), verbs.ProgressManual)
	a, b := newNeighbors(t, x, y)
	const messages = 10
	for i := range messages {
		for _, pair := range [][2]*end{{x, y}, {a, b}} {
			pair[1].recv(uint64(i), i*size, size)
			pair[0].post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(pair[0].mr, 0, size)}})
		}
	}
	var done [2]int
	for done[0] < messages || done[1] < messages {
		x.pollN(1)
		a.pollN(1)
		done[0] += len(y.pollN(1))
		done[1] += len(b.pollN(1))
		require.InDelta(t, done[0], done[1], 1)
	}
}

// When one of several connections ends, nothing is left of it, and the other connections
// work.
func TestConnectionEndsAmongOthers(t *testing.T) {
	x, y := newPair(t, openDevice(t, &Config{Vectors: 2}), verbs.ProgressManual)
	p := x.qp.path.(*shmConn).p
	for range 5 {
		a, b := newNeighbors(t, x, y)
		b.recv(1, 0, 10)
		a.post(verbs.SendWR{Opcode: verbs.OpSend})
		b.wait(1)
		a.post(verbs.SendWR{Opcode: verbs.OpSend})
		require.NoError(t, a.qp.Close())
		require.NoError(t, b.qp.Close())
		y.recv(2, 0, 10)
		x.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		y.wait(1)
		require.Equal(t, verbs.StatusSuccess, x.wait(1, y)[0].Status)
	}
	require.Equal(t, 1, p.conns.len())
	require.Zero(t, p.notices.len()+p.blocked.len())
}

func TestSHMConns(t *testing.T) {
	var table shmConns
	require.Nil(t, table.find(1))
	conns := make(map[uint32]*shmConn)
	for i := range uint32(1000) {
		num := 2 + 6*i
		conns[num] = &shmConn{q: &qp{num: num}}
		table.add(conns[num])
	}
	for range 2 {
		for num, c := range conns {
			require.Same(t, c, table.find(num))
			require.Nil(t, table.find(num+1))
		}
	}
	for num, c := range conns {
		table.remove(c)
		require.Nil(t, table.find(num))
	}
	require.Zero(t, table.len())
}

// After a message in the payload area, polls without work bring the memory of the next
// payload into the caches.
func TestIdlePollsOwnPayloadMemory(t *testing.T) {
	a, b := newPair(t, openDevice(t, nil), verbs.ProgressManual)
	b.recv(1, 0, 8<<10)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8<<10)}})
	out := &a.qp.path.(*shmConn).p.out
	require.True(t, out.OwnDue())
	b.wait(1)
	a.wait(1)
	a.pollN(10)
	require.False(t, out.OwnDue())
}
