//go:build linux

package udpath

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newUDEnd makes an end with a UD queue pair in RTS, on a new host of the simulated network.
func newUDEnd(s *qptest.Sim) *qptest.End {
	e := s.NewEnd()
	e.BecomeUD(16)
	return e
}

// handleTo returns an address handle of e for the address of peer.
func handleTo(s *qptest.Sim, e, peer *qptest.End) verbs.AH {
	return handleFor(e, s.Host(peer).Addr.String())
}

func TestWireDatagrams(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &Config{HasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	there, back := handleTo(s, a, b), handleTo(s, b, a)
	for i := range qp.DatagramMTU {
		a.MR.Bytes()[i] = byte(i)
	}
	for _, size := range []int{0, 1, 255, qp.DatagramMTU} {
		b.Recv(7, 0, 40+qp.DatagramMTU)
		a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSendImm, Imm: 5, Flags: verbs.SendSignaled, AH: there, RemoteQPN: b.QP.Num(), RemoteQKey: qptest.DatagramQKey,
			SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}})
		require.Equal(t, verbs.StatusSuccess, a.DrainCQ()[0].Status, "a datagram completes when it was sent")
		s.Settle()
		got := b.DrainCQ()
		require.Len(t, got, 1)
		require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, Flags: verbs.WCWithGRH | verbs.WCWithImm, ByteLen: uint32(40 + size),
			Imm: 5, QPN: b.QP.Num(), SrcQPN: a.QP.Num()}, got[0])
		require.Equal(t, a.MR.Bytes()[:size], b.MR.Bytes()[40:][:size])
		var header wire.GRH
		header.Set(s.Host(a).Addr, s.Host(b).Addr, wire.UDSendOnlyImm.Size(size), 0, 64)
		require.Equal(t, header[:], b.MR.Bytes()[:40])
	}
	a.Recv(8, 0, 100)
	b.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, AH: back, RemoteQPN: a.QP.Num(), RemoteQKey: qptest.DatagramQKey})
	s.Settle()
	require.EqualValues(t, 40, a.DrainCQ()[0].ByteLen)
}

func TestWireDatagramsThatAreDropped(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &Config{HasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	there := handleTo(s, a, b)
	send := func(size int, qkey uint32) []verbs.WC {
		a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: there, RemoteQPN: b.QP.Num(), RemoteQKey: qkey,
			SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, size)}})
		require.Equal(t, verbs.StatusSuccess, a.DrainCQ()[0].Status)
		s.Settle()
		return b.DrainCQ()
	}
	require.Empty(t, send(1, qptest.DatagramQKey), "there is no buffer")
	b.Recv(1, 0, 50)
	require.Empty(t, send(1, qptest.DatagramQKey+1), "the key is wrong")
	require.Empty(t, send(11, qptest.DatagramQKey), "the buffer is too small")
	require.Len(t, send(10, qptest.DatagramQKey), 1, "this one fits")

	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, AH: there, RemoteQPN: b.QP.Num(), SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, qp.DatagramMTU+1)}})
	require.Equal(t, verbs.StatusLocLenErr, a.DrainCQ()[0].Status)
}

// A UD queue pair drops RC packets.
func TestWireRequestForAUDQueuePair(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &Config{HasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	a.Recv(1, 0, 100)
	pkt := wire.Build(make([]byte, wire.SendOnly.Size(0)), wire.SendOnly, 0)
	pkt.BTH().SetDestQP(a.QP.Num())
	require.True(t, a.QP.Shard.Demux.Receive(pkt, &udp.Header{From: s.Host(b).Addr, To: s.Host(a).Addr}))
	require.Empty(t, a.DrainCQ())
}

// With PathAuto, the wire path drops packets from this host. Only the local path checks
// the sender's user.
func TestUDWireFromThisHost(t *testing.T) {
	cfg := &Config{HasWire: true}
	s := newDatagramSim(t, newDatagramDevice(t, 2, cfg))
	a, b := newUDEnd(s), newUDEnd(s)
	pkt := wire.Build(make([]byte, wire.UDSendOnly.Size(0)), wire.UDSendOnly, 0)
	pkt.BTH().SetDestQP(a.QP.Num())
	pkt.DETH().Set(qptest.DatagramQKey, b.QP.Num())
	for _, c := range []struct {
		local bool // whether the device also has the local path, as with PathAuto
		from  netip.Addr
		taken int
	}{
		{true, netip.MustParseAddr("::1"), 0},
		{true, s.Host(b).Addr, 1},
		{false, netip.MustParseAddr("::1"), 1},
	} {
		cfg.HasLocal = c.local
		a.Recv(1, 0, 100)
		a.QP.Shard.Demux.Receive(pkt, &udp.Header{From: c.from, To: s.Host(a).Addr})
		require.Len(t, a.DrainCQ(), c.taken, "local path %v, from %v", c.local, c.from)
	}
}
