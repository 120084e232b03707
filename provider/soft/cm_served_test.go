//go:build linux

package soft

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/nettest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestServes(t *testing.T)             { peerproc.InNetworkNamespace(t, "serves") }
func TestListenOnAll(t *testing.T)        { peerproc.InNetworkNamespace(t, "listen-on-all") }
func TestServesAddedAddress(t *testing.T) { peerproc.InNetworkNamespace(t, "added-address") }
func TestServesAddedLookup(t *testing.T)  { peerproc.InNetworkNamespace(t, "added-address-udp") }

// serves returns the result of ID.Serves as a map. A key is the path, a space and the
// address. The value is the error.
func serves(l *cm.ID) map[string]error {
	out := make(map[string]error)
	for _, s := range l.Serves() {
		out[s.Path+" "+s.Addr.Addr().String()] = s.Err
	}
	return out
}

// listenWildcard listens on a wildcard address with port 7471.
func (s *party) listenWildcard(ps cm.PortSpace, wildcard string) *cm.ID {
	s.T.Helper()
	return s.Listen(ps, netip.AddrPortFrom(netip.MustParseAddr(wildcard), 7471).String(), 0)
}

// peerServes checks that Serves lists every path and address of a listener, with an
// error for addresses that are not served.
func peerServes(t *testing.T, _ string) {
	nettest.AddHostAddrs(t, "10.77.0.1", "10.77.0.2", "fd00::1")
	other := openParty(t, &Config{Path: PathWire})
	other.Listen(cm.TCP, "10.77.0.2:1", 0)

	auto := openParty(t, &Config{})
	got := serves(auto.listenWildcard(cm.TCP, "::"))
	require.NoError(t, got["local ::"])
	require.NoError(t, got["wire 10.77.0.1"])
	require.NoError(t, got["wire fd00::1"])
	require.ErrorIs(t, got["wire 10.77.0.2"], cm.ErrAddrInUse)
	require.ErrorContains(t, got["wire 10.77.0.2"], "belongs to another process")
	require.Len(t, got, 4)

	narrow := auto.Listen(cm.TCP, "10.77.0.2:7472", 0)
	require.Equal(t, []cm.ServedAddr{
		{Path: "local", Addr: netip.MustParseAddrPort("10.77.0.2:7472")},
		{Path: "wire", Addr: netip.MustParseAddrPort("10.77.0.2:7472"), Err: narrow.Serves()[1].Err},
	}, narrow.Serves())
	require.ErrorIs(t, narrow.Serves()[1].Err, cm.ErrAddrInUse)
	loopback := auto.Listen(cm.TCP, "127.0.0.1:7472", 0)
	require.Equal(t, []cm.ServedAddr{{Path: "local", Addr: loopback.LocalAddr()}}, loopback.Serves())
	require.NoError(t, loopback.Close())
	require.Nil(t, loopback.Serves())
	require.Nil(t, auto.ID(cm.TCP).Serves())

	local := openParty(t, &Config{Path: PathLocal})
	l := local.Listen(cm.TCP, "0.0.0.0:7473", 0)
	require.Equal(t, []cm.ServedAddr{{Path: "local", Addr: l.LocalAddr()}}, l.Serves())
}

// peerListenOnAll checks Config.ListenOnAll. If one address can not be served, Listen
// fails and serves no address.
func peerListenOnAll(t *testing.T, _ string) {
	nettest.AddHostAddrs(t, "10.77.0.1", "10.77.0.2")
	other := openParty(t, &Config{Path: PathWire})
	taken := other.Listen(cm.TCP, "10.77.0.2:1", 0)
	for _, path := range []Path{PathAuto, PathWire} {
		all := openParty(t, &Config{Path: path, ListenOnAll: true})
		for _, addr := range []string{"0.0.0.0:7471", "10.77.0.2:7471"} {
			l := all.ID(cm.TCP)
			require.NoError(t, l.Bind(netip.MustParseAddrPort(addr)))
			err := l.Listen(0)
			require.ErrorIs(t, err, cm.ErrAddrInUse)
			require.ErrorContains(t, err, "wire path at 10.77.0.2:7471")
			require.Equal(t, cm.StateBound, l.State())
			require.Empty(t, all.p.dev.wire.Addrs(), "the UDP ports are free again")
			client := openParty(t, &Config{Path: PathLocal})
			client.WantRejected(client.Connecting(cm.TCP, netip.MustParseAddrPort("10.77.0.2:7471"), nil), cm.RejectInvalidServiceID, false, nil)
			require.NoError(t, l.Close())
		}
		require.NoError(t, all.Listen(cm.TCP, "10.77.0.1:7471", 0).Close(), "this address can be served")
	}
	require.NoError(t, taken.Close())
}

// peerAddedAddress checks that a wildcard listener serves a new address on both paths,
// until the address is removed.
func peerAddedAddress(t *testing.T, _ string) {
	peerproc.LinkUp(t, "lo")
	n := newFarNetwork(t)
	nettest.AddAddr(t, "near", "10.77.0.1/24")
	nettest.AddAddr(t, "near", "fd00:77::1/64")
	server := openParty(t, &Config{})
	l := server.listenWildcard(cm.TCP, "::")
	for _, added := range []string{"10.77.0.2/24", "fd00:77::2/64"} {
		addr, before := netip.MustParsePrefix(added).Addr(), serves(l)
		require.NotContains(t, before, "wire "+addr.String())
		nettest.AddAddr(t, "near", added)
		server.Want(cm.AddrChange, l)
		require.NoError(t, serves(l)["wire "+addr.String()])
		require.Len(t, serves(l), len(before)+1)

		at := netip.AddrPortFrom(addr, 7471)
		line, kill := n.start("far-client", at.String())
		server.acceptFar(l)
		require.Equal(t, "sent", line())
		kill()

		near := openParty(t, &Config{})
		local := near.Connecting(cm.TCP, at, nil)
		passive, _ := server.Request(l)
		require.NoError(t, passive.Reject(nil))
		near.WantRefusal(local, true, nil)

		nettest.RemoveAddr(t, "near", added)
		server.Want(cm.AddrChange, l)
		require.Equal(t, before, serves(l))
	}
	require.NoError(t, l.Close())
	server.Quiet()
}

// peerAddedLookup moves a wildcard listener of UD queue pairs to another event channel.
// Then an address is added to the host. The listener also serves this address.
func peerAddedLookup(t *testing.T, _ string) {
	peerproc.LinkUp(t, "lo")
	n := newFarNetwork(t)
	nettest.AddAddr(t, "near", "10.77.0.1/24")
	server := openParty(t, &Config{})
	l := server.listenWildcard(cm.UDP, "0.0.0.0")
	other, err := cm.OpenChannel(server.p)
	require.NoError(t, err)
	require.NoError(t, l.Migrate(other))
	require.NoError(t, server.Channel.Close())
	server.Channel = other

	nettest.AddAddr(t, "near", "10.77.0.2/24")
	server.Want(cm.AddrChange, l)
	line, kill := n.start("far-lookup", "10.77.0.2:7471")
	passive, _ := server.Request(l)
	qp := server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	require.Equal(t, strconv.FormatUint(uint64(qp.Num()), 10), line())
	require.Equal(t, verbs.StateRTS, qp.State())
	kill()
}
