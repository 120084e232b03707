//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// An RC queue pair drops UD packets.
func TestWireDatagramForAConnection(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.NewEnd(), s.NewEnd()
	s.Join(a, b)
	b.Recv(1, 0, 100)
	pkt := wire.Build(make([]byte, wire.UDSendOnly.Size(0)), wire.UDSendOnly, 0)
	pkt.BTH().SetDestQP(b.QP.Num())
	require.True(t, b.QP.Shard.Demux.Receive(pkt, &udp.Header{From: s.Host(a).Addr, To: s.Host(b).Addr}))
	require.Empty(t, b.DrainCQ())
	a.Send(2, 0)
	s.Settle()
	require.Len(t, b.DrainCQ(), 1, "the connection goes on")
}
