//go:build linux

package soft

import (
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// inNetworkNamespace runs a peer process as root in a new network namespace, where no
// interface is up. It skips the test if the system does not allow that.
func inNetworkNamespace(t *testing.T, role string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPeer$", "-test.v")
	cmd.Env = append(os.Environ(), peerRole+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if os.IsPermission(err) {
		t.Skip("making a network namespace is not permitted here")
	}
	require.NoError(t, err, "%s", out)
}

func TestServes(t *testing.T)             { inNetworkNamespace(t, "serves") }
func TestListenOnAll(t *testing.T)        { inNetworkNamespace(t, "listen-on-all") }
func TestServesAddedAddress(t *testing.T) { inNetworkNamespace(t, "added-address") }
func TestServesAddedLookup(t *testing.T)  { inNetworkNamespace(t, "added-address-udp") }

// addHostAddrs brings the loopback interface up, and adds the addresses to it.
func addHostAddrs(t *testing.T, addrs ...string) {
	t.Helper()
	linkUp(t, "lo")
	for _, a := range addrs {
		addr := netip.MustParseAddr(a)
		addAddr(t, "lo", netip.PrefixFrom(addr, addr.BitLen()).String())
	}
}

// serves returns the errors of ID.Serves by path and address.
func serves(l *cm.ID) map[string]error {
	out := make(map[string]error)
	for _, s := range l.Serves() {
		out[s.Path+" "+s.Addr.Addr().String()] = s.Err
	}
	return out
}

// listenWildcard returns a listener on a wildcard at port 7471.
func (s *party) listenWildcard(ps cm.PortSpace, wildcard string) *cm.ID {
	s.t.Helper()
	return s.listen(ps, netip.AddrPortFrom(netip.MustParseAddr(wildcard), 7471).String(), 0)
}

// The result of Serves has every path and every address of a listener, and also the
// addresses that the listener can not serve.
func peerServes(t *testing.T, _ string) {
	addHostAddrs(t, "10.77.0.1", "10.77.0.2", "fd00::1")
	other := openParty(t, &Config{Vectors: 1, Path: PathWire})
	other.listen(cm.TCP, "10.77.0.2:1", 0)

	auto := openParty(t, &Config{Vectors: 1})
	got := serves(auto.listenWildcard(cm.TCP, "::"))
	require.NoError(t, got["local ::"])
	require.NoError(t, got["wire 10.77.0.1"])
	require.NoError(t, got["wire fd00::1"])
	require.ErrorIs(t, got["wire 10.77.0.2"], cm.ErrAddrInUse)
	require.ErrorContains(t, got["wire 10.77.0.2"], "belongs to another process")
	require.Len(t, got, 4)

	narrow := auto.listen(cm.TCP, "10.77.0.2:7472", 0)
	require.Equal(t, []cm.ServedAddr{
		{Path: "local", Addr: netip.MustParseAddrPort("10.77.0.2:7472")},
		{Path: "wire", Addr: netip.MustParseAddrPort("10.77.0.2:7472"), Err: narrow.Serves()[1].Err},
	}, narrow.Serves())
	require.ErrorIs(t, narrow.Serves()[1].Err, cm.ErrAddrInUse)
	loopback := auto.listen(cm.TCP, "127.0.0.1:7472", 0)
	require.Equal(t, []cm.ServedAddr{{Path: "local", Addr: loopback.LocalAddr()}}, loopback.Serves())
	require.NoError(t, loopback.Close())
	require.Nil(t, loopback.Serves())
	require.Nil(t, auto.id(cm.TCP).Serves())

	local := openParty(t, &Config{Vectors: 1, Path: PathLocal})
	l := local.listen(cm.TCP, "0.0.0.0:7473", 0)
	require.Equal(t, []cm.ServedAddr{{Path: "local", Addr: l.LocalAddr()}}, l.Serves())
}

// With Config.ListenOnAll, Listen returns an error if one of the addresses can not be
// served. After such an error no address is served.
func peerListenOnAll(t *testing.T, _ string) {
	addHostAddrs(t, "10.77.0.1", "10.77.0.2")
	other := openParty(t, &Config{Vectors: 1, Path: PathWire})
	taken := other.listen(cm.TCP, "10.77.0.2:1", 0)
	for _, path := range []Path{PathAuto, PathWire} {
		all := openParty(t, &Config{Vectors: 1, Path: path, ListenOnAll: true})
		for _, addr := range []string{"0.0.0.0:7471", "10.77.0.2:7471"} {
			l := all.id(cm.TCP)
			require.NoError(t, l.Bind(netip.MustParseAddrPort(addr)))
			err := l.Listen(0)
			require.ErrorIs(t, err, cm.ErrAddrInUse)
			require.ErrorContains(t, err, "wire path at 10.77.0.2:7471")
			require.Equal(t, cm.StateBound, l.State())
			require.Empty(t, all.p.dev.udp.Addrs(), "the UDP ports are free again")
			client := openParty(t, &Config{Vectors: 1, Path: PathLocal})
			wantRejected(client, client.connecting(cm.TCP, netip.MustParseAddrPort("10.77.0.2:7471"), nil), cm.RejectInvalidServiceID, false, nil)
			require.NoError(t, l.Close())
		}
		require.NoError(t, all.listen(cm.TCP, "10.77.0.1:7471", 0).Close(), "this address can be served")
	}
	require.NoError(t, taken.Close())
}

// A listener on a wildcard serves an address that is added later, on both paths, and
// stops serving an address that is removed.
func peerAddedAddress(t *testing.T, _ string) {
	linkUp(t, "lo")
	n := newFarNetwork(t)
	addAddr(t, "near", "10.77.0.1/24")
	addAddr(t, "near", "fd00:77::1/64")
	server := openParty(t, &Config{Vectors: 1})
	l := server.listenWildcard(cm.TCP, "::")
	for _, added := range []string{"10.77.0.2/24", "fd00:77::2/64"} {
		addr, before := netip.MustParsePrefix(added).Addr(), serves(l)
		require.NotContains(t, before, "wire "+addr.String())
		addAddr(t, "near", added)
		server.want(cm.AddrChange, l)
		require.NoError(t, serves(l)["wire "+addr.String()])
		require.Len(t, serves(l), len(before)+1)

		at := netip.AddrPortFrom(addr, 7471)
		line, kill := n.start("far-client", at.String())
		server.acceptFar(l)
		require.Equal(t, "sent", line())
		kill()

		near := openParty(t, &Config{Vectors: 1})
		local := near.connecting(cm.TCP, at, nil)
		passive, _ := server.request(l)
		require.NoError(t, passive.Reject(nil))
		wantRefusal(near, local, true, nil)

		removeAddr(t, "near", added)
		server.want(cm.AddrChange, l)
		require.Equal(t, before, serves(l))
	}
	require.NoError(t, l.Close())
	server.quiet()
}

// Lookups of datagram queue pairs arrive at an added address too, also after the
// listener has moved to another channel.
func peerAddedLookup(t *testing.T, _ string) {
	linkUp(t, "lo")
	n := newFarNetwork(t)
	addAddr(t, "near", "10.77.0.1/24")
	server := openParty(t, &Config{Vectors: 1})
	l := server.listenWildcard(cm.UDP, "0.0.0.0")
	other, err := cm.OpenChannel(server)
	require.NoError(t, err)
	require.NoError(t, l.Migrate(other))
	require.NoError(t, server.ch.Close())
	server.ch = other

	addAddr(t, "near", "10.77.0.2/24")
	server.want(cm.AddrChange, l)
	line, kill := n.start("far-lookup", "10.77.0.2:7471")
	passive, _ := server.request(l)
	qp := server.createQP(passive)
	require.NoError(t, passive.Accept(nil))
	require.Equal(t, strconv.FormatUint(uint64(qp.Num()), 10), line())
	require.Equal(t, verbs.StateRTS, qp.State())
	kill()
}

// connectingFrom returns an ID with a given source address that has sent a request
// without parameters.
func (s *party) connectingFrom(ps cm.PortSpace, from string, dst netip.AddrPort) *cm.ID {
	s.t.Helper()
	id := s.resolvedFrom(ps, from, dst)
	s.createQP(id)
	require.NoError(s.t, id.Connect(nil))
	return id
}

// resolvedFrom returns an ID with a given source address and the route to dst.
func (s *party) resolvedFrom(ps cm.PortSpace, from string, dst netip.AddrPort) *cm.ID {
	s.t.Helper()
	id := s.id(ps)
	require.NoError(s.t, id.ResolveAddr(netip.AddrPortFrom(netip.MustParseAddr(from), 0), dst, time.Second))
	s.want(cm.AddrResolved, id)
	require.NoError(s.t, id.ResolveRoute(time.Second))
	s.want(cm.RouteResolved, id)
	return id
}
