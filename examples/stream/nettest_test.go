package stream_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// newNetwork makes a Network with a device of its own.
func newNetwork(t testing.TB, device soft.Config, cfg *stream.NetworkConfig) *stream.Network {
	device.Vectors = 1
	p, err := soft.Open(&device)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	n, err := stream.New(p, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// TestConn runs the tests of package nettest for a net.Conn on both paths of the software
// device.
func TestConn(t *testing.T) {
	wirePort := freeWirePort(t)
	for name, test := range map[string]struct {
		device soft.Config
		client netip.Addr // local address of the client
	}{
		"local": {soft.Config{Path: soft.PathLocal}, netip.Addr{}},
		"wire":  {soft.Config{Path: soft.PathWire, WirePort: wirePort}, netip.MustParseAddr("127.0.0.2")},
	} {
		t.Run(name, func(t *testing.T) {
			server := newNetwork(t, test.device, nil)
			client := newNetwork(t, test.device, &stream.NetworkConfig{LocalAddr: test.client})
			ln, err := server.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				if c1, err = client.Dial("tcp", ln.Addr().String()); err != nil {
					return
				}
				c2, err = ln.Accept()
				return c1, c2, func() { c1.Close(); c2.Close() }, err
			})
		})
	}
}

// freeWirePort returns a UDP port that no socket uses.
func freeWirePort(t testing.TB) uint16 {
	c, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}
