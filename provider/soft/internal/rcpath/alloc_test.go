//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A memoryConn is a packets.Conn that passes packets to another shard in memory, without
// allocations.
type memoryConn struct {
	peer    *packets.Demux
	from    udp.Header
	buffers [256][wire.MaxPacket]byte
	queued  []wire.Packet
}

func (w *memoryConn) Open(*udp.Route) error { return nil }
func (w *memoryConn) Close(*udp.Route)      {}
func (w *memoryConn) Flush()                {}
func (w *memoryConn) OnTimeout(*udp.Route)  {}

func (w *memoryConn) Buffer(_ *udp.Route, size int) []byte {
	if len(w.queued) == len(w.buffers) {
		return nil
	}
	return w.buffers[len(w.queued)][:size]
}

func (w *memoryConn) Push(_ *udp.Route, p wire.Packet) { w.queued = append(w.queued, p) }

// deliver passes the queued packets to the other shard.
func (w *memoryConn) deliver() {
	for _, p := range w.queued {
		w.peer.Receive(p, &w.from)
	}
	w.queued = w.queued[:0]
}

// newMemoryPair returns two ends whose shards are connected by memoryConns. The function
// turn() delivers the queued packets of both.
func newMemoryPair(t testing.TB) (a, b *qptest.End, turn func()) {
	s := newSim(t, 1, quietNet)
	a, b = s.NewEnd(), s.NewEnd()
	conns := [2]*memoryConn{}
	for i := range conns {
		conns[i] = &memoryConn{peer: &s.Hosts[1-i].Shard.Demux, from: udp.Header{From: s.Hosts[i].Addr}}
		s.Hosts[i].Shard.Demux.Conn = conns[i]
	}
	s.Join(a, b, func(attr *verbs.QPAttr) { attr.PathMTU = verbs.MTU1024 })
	return a, b, func() {
		for _, c := range conns {
			c.deliver()
		}
	}
}

func TestWireHotPathDoesNotAllocate(t *testing.T) {
	a, b, turn := newMemoryPair(t)
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(b.MR, 0, 8192)}}}
	remote, key := b.MR.Addr(), b.MR.RKey()
	word := []verbs.SGE{verbs.SGEOf(a.MR, 64, 8)}
	sends := []verbs.SendWR{
		{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 64)},
		{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 5000)}, RemoteAddr: remote, RKey: key},
		{Opcode: verbs.OpRead, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 5000)}, RemoteAddr: remote, RKey: key},
		{Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, SGEs: word, RemoteAddr: remote, RKey: key},
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = b.QP.PostRecv(recvs)
		_, _ = a.QP.PostSend(sends)
		for done := 0; done < len(sends); {
			turn()
			_, _ = b.CQ.Poll(b.WC)
			n, _ := a.CQ.Poll(a.WC)
			done += n
		}
	}))
}

func BenchmarkWireRoundTrip(b *testing.B) {
	b.ReportAllocs()
	one, two, turn := newMemoryPair(b)
	ends := [2]*qptest.End{one, two}
	var recvs [2][]verbs.RecvWR
	for i, e := range ends {
		recvs[i] = []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(e.MR, 0, 64)}}}
	}
	send := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 64)}}
	for b.Loop() {
		for i, e := range ends {
			_, _ = ends[1-i].QP.PostRecv(recvs[1-i])
			_, _ = e.QP.PostSend(send)
			turn()
			_, _ = ends[1-i].CQ.Poll(ends[1-i].WC)
		}
	}
}
