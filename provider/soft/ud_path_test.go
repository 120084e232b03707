//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// handle creates an address handle for an IP address.
func (e *end) handle(addr string) verbs.AH {
	a, err := e.pd.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr(addr)), Port: 1, HopLimit: 64})
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, a.Close()) })
	return a
}

// sendTo posts a datagram of the given size to peer's queue pair at the address dst.
func (e *end) sendTo(dst verbs.AH, peer *end, size int) {
	e.post(verbs.SendWR{ID: uint64(size), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: dst, RemoteQPN: peer.qp.num, RemoteQKey: simQKey,
		SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, size)}})
}

// The address handle of a request selects the local or the wire path. Requests complete
// in order, even on both paths.
func TestDatagramsBothWays(t *testing.T) {
	s := newSim(t, 1, quietNet)
	s.dev.cfg.Path = PathAuto
	a, b := s.newUDEnd(), s.newUDEnd()
	far, near := s.handleTo(a, b), a.handle("127.0.0.1")
	require.True(t, far.(*ah).overWire())
	require.False(t, near.(*ah).overWire())
	for i := range 6 {
		b.recv(uint64(i), 100*i, 100)
	}
	for i := range 3 {
		a.sendTo(far, b, 2*i)
		a.sendTo(near, b, 2*i+1)
	}
	for i, wc := range a.wait(6) {
		require.Equal(t, verbs.StatusSuccess, wc.Status)
		require.EqualValues(t, i, wc.ID)
	}
	s.settle()
	var even, odd []uint32
	for _, wc := range b.wait(6) {
		require.Equal(t, a.qp.num, wc.SrcQPN)
		header := wire.GRH(b.mr.Bytes()[100*wc.ID:][:40])
		if size := wc.ByteLen - 40; size%2 == 0 {
			even = append(even, size)
			require.Contains(t, string(header[:]), string(s.host(a).addr.AsSlice()), "from another host")
		} else {
			odd = append(odd, size)
			require.Contains(t, string(header[:]), "\x7f\x00\x00\x01", "from this host")
		}
	}
	require.Equal(t, []uint32{0, 2, 4}, even)
	require.Equal(t, []uint32{1, 3, 5}, odd)
}

// A fullConn is a packetConn without room for packets.
type fullConn struct{ packetConn }

func (fullConn) Buffer(*udp.Route, int) []byte { return nil }

// A datagram waits if the wire path has no room. Later datagrams wait behind it, even
// those for the local path.
func TestDatagramsWaitForRoom(t *testing.T) {
	s := newSim(t, 1, quietNet)
	s.dev.cfg.Path = PathAuto
	a, b := s.newUDEnd(), s.newUDEnd()
	far, near := s.handleTo(a, b), a.handle("127.0.0.1")
	open := a.qp.shard.demux.conn
	a.qp.shard.demux.conn = fullConn{open}
	_, err := a.qp.PostSend([]verbs.SendWR{a.datagram(far, b), a.datagram(near, b)})
	require.NoError(t, err)
	require.EqualValues(t, 2, a.qp.sq.tail-a.qp.sq.next, "both datagrams wait")
	a.qp.shard.demux.conn = open
	require.Len(t, a.wait(2), 2)
}

func (e *end) datagram(to verbs.AH, peer *end) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: to, RemoteQPN: peer.qp.num, RemoteQKey: simQKey}
}

func TestDatagramsKeepToThePath(t *testing.T) {
	elsewhere := &verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr("203.0.113.1")), Port: 1}
	for path, want := range map[Path]bool{PathLocal: false, PathAuto: true, PathWire: true} {
		e := newEnd(t, openDevice(t, &Config{Vectors: 1, Path: path, WirePort: freeport.UDP(t)}), 0, verbs.ProgressManual)
		a, err := e.pd.CreateAH(elsewhere)
		if !want {
			require.ErrorIs(t, err, verbs.ErrNotSupported)
			continue
		}
		require.NoError(t, err)
		require.True(t, a.(*ah).overWire())
		require.NoError(t, a.Close())
	}
}

// receivingAddrs returns the local addresses at which an ID's queue pair receives
// datagrams on the wire path.
func receivingAddrs(id *cm.ID) (at []netip.Addr) {
	for _, home := range id.QP().(*qp).path.(*udPath).wire.reachableAt {
		at = append(at, home.Local)
	}
	return at
}

// An ID's queue pair opens a UDP port only at the address that other hosts use to reach
// it.
func TestDatagramsPlaced(t *testing.T) {
	s := openParty(t, &Config{Vectors: 1, WirePort: freeport.UDP(t)})
	l := s.Listen(cm.UDP, "127.9.1.1:0", 1)
	active := s.Connecting(cm.UDP, l.LocalAddr(), nil)
	require.Empty(t, receivingAddrs(active), "the peer is on this host")
	passive, _ := s.Request(l)
	s.CreateQP(passive)
	require.Empty(t, receivingAddrs(passive))

	bound := s.ID(cm.UDP)
	require.NoError(t, bound.Bind(netip.MustParseAddrPort("127.9.1.2:0")))
	s.CreateQP(bound)
	require.Empty(t, receivingAddrs(bound), "a loopback address needs no UDP port")
}

// On the local path, the source index of the address handle selects the source address
// in the datagram's header.
func TestDatagramSourceIndex(t *testing.T) {
	d := openDevice(t, localConfig())
	used := netip.MustParseAddr("127.0.0.99")
	d.gids.inUse = func() []netip.Addr { return []netip.Addr{used} }
	index, err := d.gids.index(used)
	require.NoError(t, err)
	a, b := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	to, err := a.pd.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr("127.0.0.1")), SourceIndex: index, Port: 1})
	require.NoError(t, err)
	b.recv(1, 0, 100)
	a.sendTo(to, b, 8)
	b.wait(1, a)
	var want wire.GRH
	want.Set(used, netip.MustParseAddr("127.0.0.1"), wire.UDSendOnly.Size(8), 0, datagramHops)
	require.Equal(t, want[:], b.mr.Bytes()[:len(want)])
	a.wait(1)
	require.NoError(t, to.Close())
}
