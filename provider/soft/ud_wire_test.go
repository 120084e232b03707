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

const simQKey = 0x11111111

// newUDEnd makes an end with a UD queue pair in RTS.
func (s *sim) newUDEnd() *end {
	e := s.newEnd()
	e.makeUD(16)
	return e
}

// makeUD replaces an end's queue pair by a UD queue pair in RTS. The parameter places is
// the depth of both queues.
func (e *end) makeUD(places int) {
	require.NoError(e.t, e.qp.Close())
	q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeUD, SendCQ: e.cq, RecvCQ: e.cq,
		Caps: verbs.QPCaps{MaxSendWR: places, MaxRecvWR: places, MaxSendSGE: 2, MaxRecvSGE: 2}})
	require.NoError(e.t, err)
	e.qp = q.(*qp)
	attr := verbs.QPAttr{Port: 1, QKey: simQKey, SQPSN: 0xffffff}
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.QPAttrMask
	}{{verbs.StateInit, verbs.AttrPort | verbs.AttrQKey}, {verbs.StateRTR, 0}, {verbs.StateRTS, verbs.AttrSQPSN}} {
		attr.State = step.state
		require.NoError(e.t, q.Modify(&attr, step.mask|verbs.AttrState))
	}
}

// handleTo returns an address handle of e for the address of peer.
func (s *sim) handleTo(e, peer *end) verbs.AH {
	a, err := e.pd.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(s.host(peer).addr), Port: 1, HopLimit: 64})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, a.Close()) })
	return a
}

func TestWireDatagrams(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.newUDEnd(), s.newUDEnd()
	there, back := s.handleTo(a, b), s.handleTo(b, a)
	for i := range datagramMTU {
		a.mr.Bytes()[i] = byte(i)
	}
	for _, size := range []int{0, 1, 255, datagramMTU} {
		b.recv(7, 0, 40+datagramMTU)
		a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSendImm, Imm: 5, Flags: verbs.SendSignaled, AH: there, RemoteQPN: b.qp.num, RemoteQKey: simQKey,
			SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}})
		require.Equal(t, verbs.StatusSuccess, a.drainCQ()[0].Status, "a datagram completes when it was sent")
		s.settle()
		got := b.drainCQ()
		require.Len(t, got, 1)
		require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, Flags: verbs.WCWithGRH | verbs.WCWithImm, ByteLen: uint32(40 + size),
			Imm: 5, QPN: b.qp.num, SrcQPN: a.qp.num}, got[0])
		require.Equal(t, a.mr.Bytes()[:size], b.mr.Bytes()[40:][:size])
		var header wire.GRH
		header.Set(s.host(a).addr, s.host(b).addr, wire.UDSendOnlyImm.Size(size), 0, 64)
		require.Equal(t, header[:], b.mr.Bytes()[:40])
	}
	a.recv(8, 0, 100)
	b.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, AH: back, RemoteQPN: a.qp.num, RemoteQKey: simQKey})
	s.settle()
	require.EqualValues(t, 40, a.drainCQ()[0].ByteLen)
}

func TestWireDatagramsThatAreDropped(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.newUDEnd(), s.newUDEnd()
	there := s.handleTo(a, b)
	send := func(size int, qkey uint32) []verbs.WC {
		a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: there, RemoteQPN: b.qp.num, RemoteQKey: qkey,
			SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}})
		require.Equal(t, verbs.StatusSuccess, a.drainCQ()[0].Status)
		s.settle()
		return b.drainCQ()
	}
	require.Empty(t, send(1, simQKey), "there is no buffer")
	b.recv(1, 0, 50)
	require.Empty(t, send(1, simQKey+1), "the key is wrong")
	require.Empty(t, send(11, simQKey), "the buffer is too small")
	require.Len(t, send(10, simQKey), 1, "this one fits")

	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, AH: there, RemoteQPN: b.qp.num, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, datagramMTU+1)}})
	require.Equal(t, verbs.StatusLocLenErr, a.drainCQ()[0].Status)
}

// An RC queue pair drops UD packets, and a UD queue pair drops RC packets.
func TestWireDatagramForAConnection(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.newUDEnd(), s.newEnd()
	s.connect(b, a)
	b.recv(1, 0, 100)
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, AH: s.handleTo(a, b), RemoteQPN: b.qp.num, RemoteQKey: simQKey})
	s.settle()
	require.Empty(t, b.drainCQ())
	pkt := wire.Build(make([]byte, wire.SendOnly.Size(0)), wire.SendOnly, 0)
	pkt.BTH().SetDestQP(a.qp.num)
	a.qp.shard.demux.receive(pkt, &udp.Header{From: s.host(b).addr, To: s.host(a).addr})
	require.Empty(t, a.drainCQ())
}

// With PathAuto, the wire path drops packets from this host. Only the local path checks
// the sender's user.
func TestUDWireFromThisHost(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.newUDEnd(), s.newUDEnd()
	pkt := wire.Build(make([]byte, wire.UDSendOnly.Size(0)), wire.UDSendOnly, 0)
	pkt.BTH().SetDestQP(a.qp.num)
	pkt.DETH().Set(simQKey, b.qp.num)
	for _, c := range []struct {
		path  Path
		from  netip.Addr
		taken int
	}{
		{PathAuto, netip.MustParseAddr("::1"), 0},
		{PathAuto, s.host(b).addr, 1},
		{PathWire, netip.MustParseAddr("::1"), 1},
	} {
		all := a.qp.path.(*udPath).all
		all.hasLocal, all.hasWire = c.path != PathWire, c.path != PathLocal
		a.recv(1, 0, 100)
		a.qp.shard.demux.receive(pkt, &udp.Header{From: c.from, To: s.host(a).addr})
		require.Len(t, a.drainCQ(), c.taken, "%v from %v", c.path, c.from)
	}
}
