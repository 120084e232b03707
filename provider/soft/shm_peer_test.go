//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Memory without connections is kept for unusedTime, and a new connection uses it.
func TestUnusedMemoryIsDropped(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	connect := func() (a, b *end) {
		a, b = newPair(t, d, verbs.ProgressManual)
		a.requireSent(b, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}, verbs.StatusSuccess)
		return a, b
	}
	a, b := connect()
	first, peers := connOf(a).p.end, peersOf(a)
	for range 2 {
		require.Same(t, first, connOf(a).p.end)
		require.Zero(t, peers.unused)
		require.NoError(t, a.qp.Close())
		require.NoError(t, b.qp.Close())
		require.Equal(t, 1, peers.unused)
		a, b = connect()
	}
	advance := a.stopClock()
	require.NoError(t, a.qp.Close())
	require.NoError(t, b.qp.Close())
	advance(unusedTime - 1)
	a.qp.shard.fireTimers()
	require.Len(t, peers.byEnd, 1)
	advance(1)
	a.qp.shard.fireTimers()
	require.Empty(t, peers.byEnd)
	require.Zero(t, peers.unused)
	a, _ = connect()
	require.NotSame(t, first, connOf(a).p.end)
}

// A shard keeps at most maxUnused segments without connections. So clients that connect
// and disconnect can not use up its mappings.
func TestUnusedMemoryIsLimited(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{vectors: maxUnused + 3})
	peers := peersOf(newEnd(t, d, 0, verbs.ProgressManual))
	for i := range maxUnused + 2 {
		a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, i+1, verbs.ProgressManual)
		a.connect(b, nil)
		b.connect(a, nil)
		require.NoError(t, a.qp.Close())
		require.NoError(t, b.qp.Close())
		require.LessOrEqual(t, len(peers.byEnd), maxUnused)
		require.Equal(t, peers.unused, len(peers.byEnd))
	}
	require.Len(t, peers.byEnd, maxUnused)
}

// A queue pair without receive buffers does not delay other queue pairs of its shard.
// After the RNR timer, its requests are sent again. They arrive in order, and only once.
func TestRNRHoldsUpNobody(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
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
	require.True(t, x.qp.awaitsRNRTimer())
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
	x, y := newLocalPair(t, memoryConfig{})
	a, b := newNeighbors(t, x, y)
	wait := waiterFor(x)
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
	x, y := newLocalPair(t, memoryConfig{bytes: 16 << 10})
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
	x, y := newLocalPair(t, memoryConfig{})
	p := connOf(x).p
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
	for _, e := range newEnd(t, newMemoryDevice(t, memoryConfig{}), 0, verbs.ProgressManual).more(1000, nil) {
		num := e.qp.Num()
		conns[num] = &shmConn{q: e.qp}
		table.add(conns[num])
	}
	for range 2 {
		for num, c := range conns {
			require.Same(t, c, table.find(num))
			require.Nil(t, table.find(num+1), "the number belongs to another shard")
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
	a, b := newLocalPair(t, memoryConfig{})
	b.recv(1, 0, 8<<10)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8<<10)}})
	out := &connOf(a).p.out
	require.True(t, out.OwnDue())
	b.wait(1)
	a.wait(1)
	a.pollN(10)
	require.False(t, out.OwnDue())
}
