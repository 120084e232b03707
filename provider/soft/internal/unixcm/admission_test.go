//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// When too many clients have sent no request, the listener closes the oldest client of
// the user with the most clients.
func TestBusiestUsersOldestIsClosed(t *testing.T) {
	g := &unixListener{}
	add := func(uid uint32) *client {
		c := &client{unixConn: unixConn{peer: cm.Credentials{UID: uid}}}
		g.clients = append(g.clients, c)
		return c
	}
	first := add(1)
	busy := add(2)
	add(3)
	require.Same(t, first, g.oldestOfBusiest(4), "all users have one client")
	add(2)
	require.Same(t, busy, g.oldestOfBusiest(4))
	require.Same(t, first, g.oldestOfBusiest(1), "both users have two clients with the new one")
	add(3)
	require.Same(t, g.clients[2], g.oldestOfBusiest(3))
}
