//go:build linux

package soft

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/nettest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestRouteMTU(t *testing.T) { peerproc.InNetworkNamespace(t, "route-mtu") }

// peerRouteMTU checks that a connection gets a path MTU that fits the route to the peer,
// although the interface allows longer packets.
func peerRouteMTU(t *testing.T, _ string) {
	nettest.AddHostAddrs(t, "10.77.0.1", "10.77.0.2", "fd00:77::1", "fd00:77::2")
	for _, addrs := range [][2]string{{"10.77.0.1", "10.77.0.2"}, {"fd00:77::1", "fd00:77::2"}} {
		from, to := netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1])
		require.GreaterOrEqual(t, hostport.New(nil).RouteMTU(from, to), 1<<15)
		require.Equal(t, verbs.MTU4096, connectedMTU(t, from, to, false))
		limitRoute(t, to, 1500)
		require.Equal(t, 1500, hostport.New(nil).RouteMTU(from, to))
		require.Equal(t, verbs.MTU1024, connectedMTU(t, from, to, false))
		require.Equal(t, verbs.MTU1024, connectedMTU(t, to, from, true), "the listener's route is limited")
	}
	require.Zero(t, hostport.New(nil).RouteMTU(netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("192.0.2.1")), "no route")
}

// connectedMTU connects two devices on the wire path, and returns the path MTU of both
// queue pairs. If refused is true, the server first refuses the path MTU of the client.
func connectedMTU(t *testing.T, from, to netip.Addr, refused bool) verbs.MTU {
	t.Helper()
	port := freeport.UDP(t)
	client := openParty(t, &Config{Path: PathWire, WirePort: port})
	server := openParty(t, &Config{Path: PathWire, WirePort: port})
	l := server.Listen(cm.TCP, netip.AddrPortFrom(to, 0).String(), 0)
	active := client.connectFrom(from.String(), l)
	if refused {
		for _, s := range []*party{server, client} {
			cmside.AwaitReadable(t, s.Channel.FD())
			s.Quiet()
		}
	}
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, active)
	server.Want(cm.Established, passive)
	one, err := active.QP().Query()
	require.NoError(t, err)
	other, err := passive.QP().Query()
	require.NoError(t, err)
	require.Equal(t, one.PathMTU, other.PathMTU)
	exchange(t, client, active.QP(), server, passive.QP())
	cmside.Disconnect(client.Side, active, server.Side, passive)
	return one.PathMTU
}

// limitRoute replaces the kernel's route to an address of the loopback interface by one
// with the given MTU in bytes; see rtnetlink(7), RTM_DELROUTE and RTM_NEWROUTE.
func limitRoute(t *testing.T, to netip.Addr, mtu uint32) {
	t.Helper()
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	family := byte(unix.AF_INET)
	if to.Is6() {
		family = unix.AF_INET6
	}
	number := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	b := make([]byte, unix.SizeofNlMsghdr)
	b = append(b, family, byte(to.BitLen()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_KERNEL, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0)
	b = netlink.AppendAttr(b, unix.RTA_DST, to.AsSlice())
	b = netlink.AppendAttr(b, unix.RTA_OIF, number(uint32(lo.Index)))
	netlink.PutHeader(b, unix.RTM_DELROUTE, unix.NLM_F_ACK)
	require.NoError(t, nettest.Change(b))
	b = netlink.AppendAttr(b, unix.RTA_METRICS, netlink.AppendAttr(nil, unix.RTAX_MTU, number(mtu)))
	netlink.PutHeader(b, unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	require.NoError(t, nettest.Change(b))
}
