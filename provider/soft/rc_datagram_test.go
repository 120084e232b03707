//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// An RC queue pair drops UD packets.
func TestWireDatagramForAConnection(t *testing.T) {
	s := newSim(t, 1, quietNet)
	a, b := s.newEnd(), s.newEnd()
	s.join(a, b)
	b.recv(1, 0, 100)
	pkt := wire.Build(make([]byte, wire.UDSendOnly.Size(0)), wire.UDSendOnly, 0)
	pkt.BTH().SetDestQP(b.qp.Num())
	require.True(t, b.qp.shard.demux.receive(pkt, &udp.Header{From: s.host(a).addr, To: s.host(b).addr}))
	require.Empty(t, b.drainCQ())
	a.send(2, 0)
	s.settle()
	require.Len(t, b.drainCQ(), 1, "the connection goes on")
}
