//go:build linux

package udp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// When the last route of a socket is closed, the socket stays open for the next route
// until CloseUnused.
func TestUnusedSocket(t *testing.T) {
	c := newConnRig(t)
	first, fd := c.u, c.u.fd
	for n := range 3 {
		for range sendBatch {
			p := wire.Build(c.conn.Buffer(&c.route, wire.MaxPacket), wire.SendOnly, 8)
			// The number belongs to a queue pair of this shard, whose slot is 0.
			p.BTH().SetDestQP(0x124)
			p.BTH().SetPSN(psn.New(1))
			c.conn.Push(&c.route, p)
		}
		c.conn.Flush()
		c.drive()
		require.Equal(t, (n+1)*sendBatch, c.got[0x124])

		c.conn.CloseUnused()
		require.Equal(t, n, c.unused, "a socket with a route is in use")
		c.conn.Close(&c.route)
		require.False(t, c.inUse)
		require.Equal(t, n+1, c.unused)
		require.Len(t, c.ports.Addrs(), 1)
		c.open()
		require.Same(t, first, c.u)
		require.Equal(t, fd, c.u.fd)
	}
	c.conn.Close(&c.route)
	c.conn.CloseUnused()
	require.Empty(t, c.ports.Addrs(), "the UDP port is free")
	c.open()
	require.NotSame(t, first, c.u)
}

// A socket that reports IP headers does not stay open without routes.
func TestUnusedSocketWithHeaders(t *testing.T) {
	c := newConnRig(t)
	route := Route{Local: c.route.Local, Remote: c.route.Local, WantHeader: true}
	require.NoError(t, c.conn.Open(&route))
	c.conn.Close(&route)
	require.Len(t, c.ports.Addrs(), 1)
	c.conn.Close(&c.route)
	require.Empty(t, c.ports.Addrs())
	require.Zero(t, c.unused)
	c.open()
}
