// Package freeport finds ports for tests. Only tests import it.
package freeport

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// UDP returns a UDP port to which no socket of any address is bound now. It does not
// reserve the port.
func UDP(t testing.TB) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}
