//go:build linux

package madcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestPathMTU(t *testing.T) {
	for bytes, want := range map[int]verbs.MTU{
		0: verbs.MTU256, 1280: verbs.MTU1024, 1500: verbs.MTU1024, 4191: verbs.MTU2048, 4192: verbs.MTU4096, 1 << 16: verbs.MTU4096,
	} {
		require.Equal(t, want, pathMTU(bytes), "%d", bytes)
	}
}

// A filledSocket is a socket in which datagrams wait.
type filledSocket struct {
	Socket
	waiting int
}

func (s *filledSocket) Receive(udp.GSISink) int {
	n := min(s.waiting, ReadBatch)
	s.waiting -= n
	return n
}

// During a flood, many more datagrams are read from a socket than requests are handled.
func TestOnReadyReadsManyDatagrams(t *testing.T) {
	require.GreaterOrEqual(t, readRounds*ReadBatch, 16*requestBatch)
	for before, after := range map[int]int{
		1: 0, ReadBatch: 0, 3*ReadBatch + 1: 0, readRounds*ReadBatch + 5: 5,
	} {
		s := &filledSocket{waiting: before}
		p := &port{socket: s, mux: new(Mux)}
		p.OnReady(0, 0)
		require.Equal(t, after, s.waiting, "%d datagrams before", before)
	}
}

// A UDP port stays open for unusedPortTime after its last connection, and a connection
// that begins earlier uses it.
func TestUnusedPort(t *testing.T) {
	w := newMADSim(t)
	w.connectedBefore()
	client := w.client.mux
	port := client.ports[clientAddr]
	require.NotNil(t, port)
	w.clock.Advance(unusedPortTime - 1)
	w.drive()
	require.Same(t, port, client.ports[clientAddr])

	active, passive := w.connected()
	w.quiet()
	require.Same(t, port, client.ports[clientAddr], "the port has a user")
	w.disconnected(active, passive)
	w.client.End(active)
	w.quiet()
	require.Empty(t, client.ports)
	require.Empty(t, w.client.ports.Addrs(), "the UDP port is free")
}

// connectedBefore opens a connection and closes both of its IDs.
func (w *madSim) connectedBefore() {
	active, passive := w.connected()
	w.disconnected(active, passive)
	w.client.End(active)
	w.server.End(passive)
}
