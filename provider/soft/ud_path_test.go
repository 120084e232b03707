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

// handle creates an address handle for an IP address.
func handleFor(e *end, addr string) verbs.AH {
	a, err := e.pd.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr(addr)), Port: 1, HopLimit: 64})
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, a.Close()) })
	return a
}

// sendTo posts a datagram of the given size to peer's queue pair at the address dst.
func sendTo(e *end, dst verbs.AH, peer *end, size int) {
	e.post(verbs.SendWR{ID: uint64(size), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: dst, RemoteQPN: peer.qp.Num(), RemoteQKey: datagramQKey,
		SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, size)}})
}

// The address handle of a request selects the local or the wire path. Requests complete
// in order, even on both paths.
func TestDatagramsBothWays(t *testing.T) {
	s := newDatagramSim(t, newDatagramDevice(t, 2, &udConfig{hasLocal: true, hasWire: true}))
	a, b := newUDEnd(s), newUDEnd(s)
	far, near := handleTo(s, a, b), handleFor(a, "127.0.0.1")
	require.True(t, far.(*ah).overWire())
	require.False(t, near.(*ah).overWire())
	for i := range 6 {
		b.recv(uint64(i), 100*i, 100)
	}
	for i := range 3 {
		sendTo(a, far, b, 2*i)
		sendTo(a, near, b, 2*i+1)
	}
	for i, wc := range a.wait(6) {
		require.Equal(t, verbs.StatusSuccess, wc.Status)
		require.EqualValues(t, i, wc.ID)
	}
	s.settle()
	var even, odd []uint32
	for _, wc := range b.wait(6) {
		require.Equal(t, a.qp.Num(), wc.SrcQPN)
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
	d := newDatagramDevice(t, 2, &udConfig{hasLocal: true, hasWire: true})
	s := newDatagramSim(t, d)
	a, b := newUDEnd(s), newUDEnd(s)
	far, near := handleTo(s, a, b), handleFor(a, "127.0.0.1")
	open := a.qp.shard.demux.conn
	a.qp.shard.demux.conn = fullConn{open}
	_, err := a.qp.PostSend([]verbs.SendWR{datagramTo(a, far, b), datagramTo(a, near, b)})
	require.NoError(t, err)
	require.Empty(t, a.pollN(1000))
	require.Zero(t, d.paths[a.qp].seq, "both datagrams wait")
	require.True(t, a.qp.hasUnsent())
	a.qp.shard.demux.conn = open
	require.Len(t, a.wait(2), 2)
}

func datagramTo(e *end, to verbs.AH, peer *end) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: to, RemoteQPN: peer.qp.Num(), RemoteQKey: datagramQKey}
}
