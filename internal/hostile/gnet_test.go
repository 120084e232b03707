//go:build linux

package hostile_test

import (
	"bytes"
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// TestUnreadAnswers checks a server with a handler of gnet whose peers send requests and
// never read the answers. It takes a bounded number of bytes from each, does not end
// their connections, and serves another client.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	device, err := soft.Open(&soft.Config{Path: soft.PathLocal})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	network, err := stream.New(device, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, network.Close()) })
	addr := netip.AddrPortFrom(newAddr(), 7471) // No other program uses this address.
	server, _ := start(t, hostile.RoleGnetServer, sameUser, hostile.Spec{Addr: addr})
	f := &fixture{t: t, addr: addr, server: server}
	c, err := network.Dial("tcp", addr.String())
	require.NoError(t, err)
	defer c.Close()
	echo := func() {
		want, got := bytes.Repeat([]byte("request "), 1000), make([]byte, 8000)
		_, err := c.Write(want)
		require.NoError(t, err)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	echo()
	f.before = f.usage()
	const conns = 20
	attacker, _ := f.start(hostile.RoleNonReader, sameUser, hostile.Spec{Conns: conns})
	note, err := attacker.Await()
	require.NoError(t, err)
	t.Logf("%+v", note.Attack)
	require.EqualValues(t, conns, note.Attack.Admitted)
	require.Zero(t, note.Attack.Refused, "a peer that does not read has to wait")
	// A quarter of MaxOutbound waits in the server. The memory of the streams of both sides
	// has less than 2 MiB.
	most := uint64(hostile.GnetMaxOutbound/4 + 2*mebi)
	require.LessOrEqual(t, note.Attack.SentBytes/conns, most)
	f.requireGrowthBelow(conns * 2 * most)
	for range 100 {
		echo()
	}
	attacker.Kill()
	f.eventually(func() bool { return f.report(server).Server.Conns == 1 }, "the connections do not end")
	echo()
	require.NoError(t, c.Close())
	_, err = server.Finish()
	require.NoError(t, err)
}
