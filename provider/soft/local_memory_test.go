//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// endOf returns the end of the memory that a connected ID of a party uses.
func endOf(s *party, id *cm.ID) *shm.End {
	s.T.Helper()
	d, q := s.p.dev, id.QP().(*qp.QP)
	d.bindings.mu.Lock()
	end := d.bindings.bound[q.Num()].End
	d.bindings.mu.Unlock()
	q.Shard.Enter()
	defer q.Shard.Leave()
	require.NotNil(s.T, d.waysOf(q.Shard).local.ConnOver(end, q.Num()), "the queue pair does not use the End of its binding")
	return end
}

// All connections between two shards share one mapping. A further connection needs
// descriptors only for connection management.
func TestConnectionsShareMemory(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active, passive := connectTo(client, server, l)
	before := peerproc.OpenDescriptors(t)
	const more = 10
	for range more {
		otherActive, otherPassive := connectTo(client, server, l)
		require.Same(t, endOf(client, active), endOf(client, otherActive))
		require.Same(t, endOf(server, passive), endOf(server, otherPassive))
	}
	require.LessOrEqual(t, peerproc.OpenDescriptors(t)-before, 2*more, "each side has one socket for each connection")
}

// Memory without connections is kept for a while, and a new connection uses it.
func TestUnusedMemoryIsKept(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	connect := func() (active, passive *cm.ID) {
		active, passive = connectTo(client, server, l)
		works(t, client, active.QP())
		return active, passive
	}
	active, passive := connect()
	first, shard := endOf(client, active), active.QP().(*qp.QP).Shard
	client.End(active)
	server.Want(cm.Disconnected, passive)
	server.End(passive)
	active, passive = connect()
	require.Same(t, first, endOf(client, active))
	client.End(active)
	server.Want(cm.Disconnected, passive)
	server.End(passive)

	shard.Enter()
	clock := shard.Clock
	shard.Clock = func() time.Duration { return clock() + time.Minute }
	shard.FireTimers()
	shard.Leave()
	active, _ = connect()
	require.NotSame(t, first, endOf(client, active))
}

// Two connections of one shard begin at the same time, on two channels. The REP of the
// second one is processed first, or the first one ends before its REP is processed.
func TestSecondReplyFirst(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		client, server := newParty(t), newParty(t)
		other := cmside.Open(t, client.p, client.p.dev)
		l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
		dial := func(side *cmside.Side) (active, passive *cm.ID) {
			active = side.Connecting(cm.TCP, l.LocalAddr(), nil)
			passive, _ = server.Request(l)
			server.CreateQP(passive)
			return active, passive
		}
		first, firstPassive := dial(client.Side)
		second, secondPassive := dial(other)
		require.NoError(t, firstPassive.Accept(nil))
		require.NoError(t, secondPassive.Accept(nil))
		if cancel {
			client.End(first)
		}
		other.Want(cm.Established, second)
		if !cancel {
			client.Want(cm.Established, first)
		}
	}
}

// Without shared regions, the peer executes every request.
func TestConfigPrivateRegions(t *testing.T) {
	a, b := qptest.NewPair(t, openDevice(t, &Config{PrivateRegions: true}), verbs.ProgressManual)
	for range 3 {
		a.RequireSent(b, a.Remote(verbs.OpWrite, b, 8), verbs.StatusSuccess)
	}
}
