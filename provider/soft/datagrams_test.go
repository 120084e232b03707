//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestDatagramsKeepToThePath(t *testing.T) {
	elsewhere := &verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr("203.0.113.1")), Port: 1}
	for path, want := range map[Path]bool{PathLocal: false, PathAuto: true, PathWire: true} {
		e := qptest.NewEnd(t, openDevice(t, &Config{Path: path, WirePort: freeport.UDP(t)}), 0, verbs.ProgressManual)
		a, err := e.PD.CreateAH(elsewhere)
		if !want {
			require.ErrorIs(t, err, verbs.ErrNotSupported)
			continue
		}
		require.NoError(t, err)
		require.True(t, a.(*qp.AH).OverWire())
		require.NoError(t, a.Close())
	}
}

// An ID's queue pair opens a UDP port only at the address that other hosts use to reach
// it.
func TestDatagramsPlaced(t *testing.T) {
	s := openParty(t, &Config{WirePort: freeport.UDP(t)})
	l := s.Listen(cm.UDP, "127.9.1.1:0", 1)
	s.Connecting(cm.UDP, l.LocalAddr(), nil)
	require.Empty(t, s.p.dev.wire.Addrs(), "the peer is on this host")
	passive, _ := s.Request(l)
	s.CreateQP(passive)
	require.Empty(t, s.p.dev.wire.Addrs())

	bound := s.ID(cm.UDP)
	require.NoError(t, bound.Bind(netip.MustParseAddrPort("127.9.1.2:0")))
	s.CreateQP(bound)
	require.Empty(t, s.p.dev.wire.Addrs(), "a loopback address needs no UDP port")
}

// On the local path, the source index of the address handle selects the source address
// in the datagram's header.
func TestDatagramSourceIndex(t *testing.T) {
	d := openDevice(t, localConfig())
	used := netip.MustParseAddr("127.0.0.99")
	d.gids.inUse = func() []netip.Addr { return []netip.Addr{used} }
	index, err := d.gids.index(used)
	require.NoError(t, err)
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	a.BecomeUD(16)
	b.BecomeUD(16)
	to, err := a.PD.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr("127.0.0.1")), SourceIndex: index, Port: 1})
	require.NoError(t, err)
	b.Recv(1, 0, 100)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: to, RemoteQPN: b.QP.Num(), RemoteQKey: qptest.DatagramQKey,
		SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
	b.Wait(1, a)
	const hops = 64 // of all datagrams on the local path
	var want wire.GRH
	want.Set(used, netip.MustParseAddr("127.0.0.1"), wire.UDSendOnly.Size(8), 0, hops)
	require.Equal(t, want[:], b.MR.Bytes()[:len(want)])
	a.Wait(1)
	require.NoError(t, to.Close())
}
