//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newUDEnd makes an end with a UD queue pair in RTS, on a new host of the simulated network.
func newUDEnd(s *sim) *end {
	e := s.newEnd()
	e.becomeUD(16)
	return e
}

// handleTo returns an address handle of e for the address of peer.
func handleTo(s *sim, e, peer *end) verbs.AH { return handleFor(e, s.host(peer).addr.String()) }

func TestWireDatagrams(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &udConfig{hasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	there, back := handleTo(s, a, b), handleTo(s, b, a)
	for i := range datagramMTU {
		a.mr.Bytes()[i] = byte(i)
	}
	for _, size := range []int{0, 1, 255, datagramMTU} {
		b.recv(7, 0, 40+datagramMTU)
		a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSendImm, Imm: 5, Flags: verbs.SendSignaled, AH: there, RemoteQPN: b.qp.Num(), RemoteQKey: datagramQKey,
			SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}})
		require.Equal(t, verbs.StatusSuccess, a.drainCQ()[0].Status, "a datagram completes when it was sent")
		s.settle()
		got := b.drainCQ()
		require.Len(t, got, 1)
		require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, Flags: verbs.WCWithGRH | verbs.WCWithImm, ByteLen: uint32(40 + size),
			Imm: 5, QPN: b.qp.Num(), SrcQPN: a.qp.Num()}, got[0])
		require.Equal(t, a.mr.Bytes()[:size], b.mr.Bytes()[40:][:size])
		var header wire.GRH
		header.Set(s.host(a).addr, s.host(b).addr, wire.UDSendOnlyImm.Size(size), 0, 64)
		require.Equal(t, header[:], b.mr.Bytes()[:40])
	}
	a.recv(8, 0, 100)
	b.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, AH: back, RemoteQPN: a.qp.Num(), RemoteQKey: datagramQKey})
	s.settle()
	require.EqualValues(t, 40, a.drainCQ()[0].ByteLen)
}

func TestWireDatagramsThatAreDropped(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &udConfig{hasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	there := handleTo(s, a, b)
	send := func(size int, qkey uint32) []verbs.WC {
		a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: there, RemoteQPN: b.qp.Num(), RemoteQKey: qkey,
			SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}})
		require.Equal(t, verbs.StatusSuccess, a.drainCQ()[0].Status)
		s.settle()
		return b.drainCQ()
	}
	require.Empty(t, send(1, datagramQKey), "there is no buffer")
	b.recv(1, 0, 50)
	require.Empty(t, send(1, datagramQKey+1), "the key is wrong")
	require.Empty(t, send(11, datagramQKey), "the buffer is too small")
	require.Len(t, send(10, datagramQKey), 1, "this one fits")

	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, AH: there, RemoteQPN: b.qp.Num(), SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, datagramMTU+1)}})
	require.Equal(t, verbs.StatusLocLenErr, a.drainCQ()[0].Status)
}

// A UD queue pair drops RC packets.
func TestWireRequestForAUDQueuePair(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &udConfig{hasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	a.recv(1, 0, 100)
	pkt := wire.Build(make([]byte, wire.SendOnly.Size(0)), wire.SendOnly, 0)
	pkt.BTH().SetDestQP(a.qp.Num())
	require.True(t, a.qp.shard.demux.receive(pkt, &udp.Header{From: s.host(b).addr, To: s.host(a).addr}))
	require.Empty(t, a.drainCQ())
}

// With PathAuto, the wire path drops packets from this host. Only the local path checks
// the sender's user.
func TestUDWireFromThisHost(t *testing.T) {
	cfg := &udConfig{hasWire: true}
	s := newDatagramSim(t, newDatagramDevice(t, 2, cfg))
	a, b := newUDEnd(s), newUDEnd(s)
	pkt := wire.Build(make([]byte, wire.UDSendOnly.Size(0)), wire.UDSendOnly, 0)
	pkt.BTH().SetDestQP(a.qp.Num())
	pkt.DETH().Set(datagramQKey, b.qp.Num())
	for _, c := range []struct {
		local bool // whether the device also has the local path, as with PathAuto
		from  netip.Addr
		taken int
	}{
		{true, netip.MustParseAddr("::1"), 0},
		{true, s.host(b).addr, 1},
		{false, netip.MustParseAddr("::1"), 1},
	} {
		cfg.hasLocal = c.local
		a.recv(1, 0, 100)
		a.qp.shard.demux.receive(pkt, &udp.Header{From: c.from, To: s.host(a).addr})
		require.Len(t, a.drainCQ(), c.taken, "local path %v, from %v", c.local, c.from)
	}
}
