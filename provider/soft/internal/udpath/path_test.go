//go:build linux

package udpath

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/packets"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// handle creates an address handle for an IP address.
func handleFor(e *qptest.End, addr string) verbs.AH {
	a, err := e.PD.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr(addr)), Port: 1, HopLimit: 64})
	require.NoError(e.T, err)
	e.T.Cleanup(func() { require.NoError(e.T, a.Close()) })
	return a
}

// sendTo posts a datagram of the given size to peer's queue pair at the address dst.
func sendTo(e *qptest.End, dst verbs.AH, peer *qptest.End, size int) {
	e.Post(verbs.SendWR{ID: uint64(size), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: dst, RemoteQPN: peer.QP.Num(), RemoteQKey: qptest.DatagramQKey,
		SGEs: []verbs.SGE{verbs.SGEOf(e.MR, 0, size)}})
}

// The address handle of a request selects the local or the wire path. Requests complete
// in order, even on both paths.
func TestDatagramsBothWays(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &Config{HasLocal: true, HasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	far, near := handleTo(s, a, b), handleFor(a, "127.0.0.1")
	require.True(t, far.(*qp.AH).OverWire())
	require.False(t, near.(*qp.AH).OverWire())
	for i := range 6 {
		b.Recv(uint64(i), 100*i, 100)
	}
	for i := range 3 {
		sendTo(a, far, b, 2*i)
		sendTo(a, near, b, 2*i+1)
	}
	for i, wc := range a.Wait(6) {
		require.Equal(t, verbs.StatusSuccess, wc.Status)
		require.EqualValues(t, i, wc.ID)
	}
	s.Settle()
	var even, odd []uint32
	for _, wc := range b.Wait(6) {
		require.Equal(t, a.QP.Num(), wc.SrcQPN)
		header := wire.GRH(b.MR.Bytes()[100*wc.ID:][:40])
		if size := wc.ByteLen - 40; size%2 == 0 {
			even = append(even, size)
			require.Contains(t, string(header[:]), string(s.Host(a).Addr.AsSlice()), "from another host")
		} else {
			odd = append(odd, size)
			require.Contains(t, string(header[:]), "\x7f\x00\x00\x01", "from this host")
		}
	}
	require.Equal(t, []uint32{0, 2, 4}, even)
	require.Equal(t, []uint32{1, 3, 5}, odd)
}

// A fullConn is a packets.Conn without room for packets.
type fullConn struct{ packets.Conn }

func (fullConn) Buffer(*udp.Route, int) []byte { return nil }

// A datagram waits if the wire path has no room. Later datagrams wait behind it, even
// those for the local path.
func TestDatagramsWaitForRoom(t *testing.T) {
	d := newDatagramDevice(t, 2, &Config{HasLocal: true, HasWire: true})
	s := newDatagramSim(t, d)
	a, b := newUDEnd(s), newUDEnd(s)
	far, near := handleTo(s, a, b), handleFor(a, "127.0.0.1")
	open := a.QP.Shard.Demux.Conn
	a.QP.Shard.Demux.Conn = fullConn{open}
	_, err := a.QP.PostSend([]verbs.SendWR{datagramTo(a, far, b), datagramTo(a, near, b)})
	require.NoError(t, err)
	require.Empty(t, a.PollN(1000))
	require.Zero(t, d.paths[a.QP].seq, "both datagrams wait")
	require.True(t, a.QP.HasUnsent())
	a.QP.Shard.Demux.Conn = open
	require.Len(t, a.Wait(2), 2)
}

func datagramTo(e *qptest.End, to verbs.AH, peer *qptest.End) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: to, RemoteQPN: peer.QP.Num(), RemoteQKey: qptest.DatagramQKey}
}
