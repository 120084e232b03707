package stream_test

import (
	"flag"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// The flags choose another device for TestConn. It then runs both sides at the address.
var (
	providerFlag = flag.String("provider", "soft", "provider for TestConn")
	addrFlag     = flag.String("addr", "", "address of this host for TestConn with another provider than soft")
)

// TestConn runs the tests of package nettest for a net.Conn: on both paths of the
// software device, or on the device that the flags choose.
func TestConn(t *testing.T) {
	if *providerFlag != "soft" {
		addr, err := netip.ParseAddr(*addrFlag)
		require.NoError(t, err)
		testConn(t, addr, netip.Addr{}, func() (cm.Provider, error) { return provider.Open(*providerFlag, nil) })
		return
	}
	server, client := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	t.Run("local", func(t *testing.T) {
		testConn(t, server, netip.Addr{}, func() (cm.Provider, error) {
			return soft.Open(&soft.Config{Path: soft.PathLocal})
		})
	})
	t.Run("wire", func(t *testing.T) {
		port := freeport.UDP(t)
		testConn(t, server, client, func() (cm.Provider, error) {
			return soft.Open(&soft.Config{Path: soft.PathWire, WirePort: port})
		})
	})
}

// testConn runs the tests between two addresses. Each side opens a provider of its own.
func testConn(t *testing.T, serverAddr, clientAddr netip.Addr, open func() (cm.Provider, error)) {
	network := func(local netip.Addr) *stream.Network {
		p, err := open()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		n, err := stream.New(p, &stream.NetworkConfig{LocalAddr: local})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		return n
	}
	server, client := network(netip.Addr{}), network(clientAddr)
	ln, err := server.Listen("tcp", net.JoinHostPort(serverAddr.String(), "0"))
	require.NoError(t, err)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		if c1, err = client.Dial("tcp", ln.Addr().String()); err != nil {
			return
		}
		c2, err = ln.Accept()
		return c1, c2, func() { c1.Close(); c2.Close() }, err
	})
}
