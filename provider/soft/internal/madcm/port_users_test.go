//go:build linux

package madcm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
	require.Empty(t, w.client.mux.Ports.Addrs(), "the UDP port is free")
}

// connectedBefore opens a connection and closes both of its IDs.
func (w *madSim) connectedBefore() {
	active, passive := w.connected()
	w.disconnected(active, passive)
	w.client.End(active)
	w.server.End(passive)
}
