//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Memory without connections is kept for unusedTime, and a new connection uses it.
func TestUnusedMemoryIsDropped(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	connect := func() (a, b *qptest.End) {
		a, b = qptest.NewPair(t, d, verbs.ProgressManual)
		a.RequireSent(b, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}, verbs.StatusSuccess)
		return a, b
	}
	a, b := connect()
	first, peers := connOf(a).p.end, peersOf(a)
	for range 2 {
		require.Same(t, first, connOf(a).p.end)
		require.Zero(t, peers.unused)
		require.NoError(t, a.QP.Close())
		require.NoError(t, b.QP.Close())
		require.Equal(t, 1, peers.unused)
		a, b = connect()
	}
	advance := a.StopClock()
	require.NoError(t, a.QP.Close())
	require.NoError(t, b.QP.Close())
	advance(unusedTime - 1)
	a.QP.Shard.FireTimers()
	require.Len(t, peers.byEnd, 1)
	advance(1)
	a.QP.Shard.FireTimers()
	require.Empty(t, peers.byEnd)
	require.Zero(t, peers.unused)
	a, _ = connect()
	require.NotSame(t, first, connOf(a).p.end)
}

// A shard keeps at most maxUnused segments without connections. So clients that connect
// and disconnect can not use up its mappings.
func TestUnusedMemoryIsLimited(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{vectors: maxUnused + 3})
	peers := peersOf(qptest.NewEnd(t, d, 0, verbs.ProgressManual))
	for i := range maxUnused + 2 {
		a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, i+1, verbs.ProgressManual)
		a.Connect(b, nil)
		b.Connect(a, nil)
		require.NoError(t, a.QP.Close())
		require.NoError(t, b.QP.Close())
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
	advance := x.StopClock()
	send := func(e *qptest.End, id uint64) {
		e.Post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte{byte(id)}})
	}
	const messages = 20
	for i := range uint64(messages) {
		send(x, i)
		b.Recv(i, int(i), 1)
		send(a, i)
	}
	for i, wc := range b.Wait(messages, a) {
		require.EqualValues(t, i, wc.ID)
	}
	a.Wait(messages, b)
	require.Empty(t, x.PollN(10))
	require.True(t, x.QP.AwaitsRNRTimer())
	for i := range uint64(messages) {
		y.Recv(i, int(i), 1)
	}
	require.Empty(t, y.PollN(10), "the requests behind the refused one were dropped")
	advance(verbs.RNRDelay(1))
	for i, wc := range y.Wait(messages, x) {
		require.EqualValues(t, i, wc.ID)
		require.Equal(t, byte(i), y.MR.Bytes()[i])
	}
	for i, wc := range x.Wait(messages, y) {
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
		x.Post(verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("x")})
	}
	y.Recv(1, 0, 10)
	y.Recv(2, 0, 10)
	send(1)
	y.Wait(1)
	require.NoError(t, y.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	send(2)
	b.Recv(7, 0, 10)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.Wait(1, a)
	a.Wait(1, b)
	got := x.PollN(10)
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
		for _, pair := range [][2]*qptest.End{{x, y}, {a, b}} {
			pair[1].Recv(uint64(i), i*size, size)
			pair[0].Post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(pair[0].MR, 0, size)}})
		}
	}
	var done [2]int
	for done[0] < messages || done[1] < messages {
		x.PollN(1)
		a.PollN(1)
		done[0] += len(y.PollN(1))
		done[1] += len(b.PollN(1))
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
		b.Recv(1, 0, 10)
		a.Post(verbs.SendWR{Opcode: verbs.OpSend})
		b.Wait(1)
		a.Post(verbs.SendWR{Opcode: verbs.OpSend})
		require.NoError(t, a.QP.Close())
		require.NoError(t, b.QP.Close())
		y.Recv(2, 0, 10)
		x.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		y.Wait(1)
		require.Equal(t, verbs.StatusSuccess, x.Wait(1, y)[0].Status)
	}
	require.Equal(t, 1, p.conns.len())
	require.Zero(t, p.notices.len()+p.blocked.len())
}

func TestSHMConns(t *testing.T) {
	var table conns
	require.Nil(t, table.find(1))
	conns := make(map[uint32]*Conn)
	for _, e := range qptest.NewEnd(t, newMemoryDevice(t, memoryConfig{}), 0, verbs.ProgressManual).More(1000, nil) {
		num := e.QP.Num()
		conns[num] = &Conn{q: e.QP}
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
	b.Recv(1, 0, 8<<10)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8<<10)}})
	out := &connOf(a).p.out
	require.True(t, out.OwnDue())
	b.Wait(1)
	a.Wait(1)
	a.PollN(10)
	require.False(t, out.OwnDue())
}
