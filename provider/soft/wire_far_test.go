//go:build linux

package soft

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/nettest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A farNetwork is a second network namespace. Its processes seem to be on another host.
// The virtual Ethernet interfaces "near" and "far" connect the namespaces.
type farNetwork struct {
	t         *testing.T
	near, far *os.File // open files of the two namespaces, for setns(2)
}

// newFarNetwork creates the second namespace, with the addresses 10.77.0.9/24 and
// fd00:77::9/64. The caller must run in a process of peerproc.InNetworkNamespace.
func newFarNetwork(t *testing.T) *farNetwork {
	t.Helper()
	n := &farNetwork{t: t, near: ownNetwork(t)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	defer n.back()
	n.far = ownNetwork(t)
	err := nettest.Change(vethRequest("far", "near", n.near))
	if err == unix.EOPNOTSUPP {
		t.Skip("the kernel has no veth interfaces")
	}
	require.NoError(t, err)
	peerproc.LinkUp(t, "lo")
	peerproc.LinkUp(t, "far")
	nettest.AddAddr(t, "far", "10.77.0.9/24")
	nettest.AddAddr(t, "far", "fd00:77::9/64")
	n.back()
	peerproc.LinkUp(t, "near")
	return n
}

// ownNetwork opens the network namespace of the calling thread.
func ownNetwork(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// back moves the calling thread to the namespace near.
func (n *farNetwork) back() {
	require.NoError(n.t, unix.Setns(int(n.near.Fd()), unix.CLONE_NEWNET))
}

// start starts a peer process in the namespace far; see peerproc.Start.
func (n *farNetwork) start(role, address string) (line func() string, kill func()) {
	n.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(n.t, unix.Setns(int(n.far.Fd()), unix.CLONE_NEWNET))
	defer n.back()
	cmd := peerproc.Command(role, address)
	// The peer runs as the user of this process. The user that Command has set may not exist
	// in this user namespace.
	cmd.SysProcAttr = nil
	return peerproc.Run(n.t, cmd)
}

// vethRequest returns an rtnetlink request for a pair of virtual Ethernet interfaces
// (linux/if_link.h). The interface peerName is in the namespace peerNetwork. Names have
// at most 7 bytes.
func vethRequest(name, peerName string, peerNetwork *os.File) []byte {
	const peerOfVeth = 1 // the constant VETH_INFO_PEER of linux/veth.h
	padded := func(name string) []byte { return append([]byte(name), make([]byte, 8-len(name))...) }
	peer := make([]byte, unix.SizeofIfInfomsg)
	peer = netlink.AppendAttr(peer, unix.IFLA_IFNAME, padded(peerName))
	peer = netlink.AppendAttr(peer, unix.IFLA_NET_NS_FD, binary.NativeEndian.AppendUint32(nil, uint32(peerNetwork.Fd())))
	info := netlink.AppendAttr(nil, unix.IFLA_INFO_KIND, []byte("veth"))
	info = netlink.AppendAttr(info, unix.IFLA_INFO_DATA, netlink.AppendAttr(nil, peerOfVeth, peer))
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	b = netlink.AppendAttr(b, unix.IFLA_IFNAME, padded(name))
	b = netlink.AppendAttr(b, unix.IFLA_LINKINFO, info)
	netlink.PutHeader(b, unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	return b
}

// peerFarClient is the function of a peer process. It connects with PathAuto and sends
// messages.
func peerFarClient(t *testing.T, address string) {
	s := openParty(t, &Config{})
	id := s.Connecting(cm.TCP, netip.MustParseAddrPort(address), nil)
	s.Want(cm.Established, id)
	flood(t, id.QP())
	peerproc.Say("sent")
	peerproc.Linger()
}

// peerFarLookup is the function of a peer process. It looks up a UD listener, and prints
// the queue pair number.
func peerFarLookup(t *testing.T, address string) {
	s := openParty(t, &Config{})
	id := s.Connecting(cm.UDP, netip.MustParseAddrPort(address), nil)
	peerproc.Say(strconv.FormatUint(uint64(s.Want(cm.Established, id).UD.QPN), 10))
	peerproc.Linger()
}

// acceptFar accepts a connection of peerFarClient, and receives its first message. The
// connection must use the wire path.
func (s *party) acceptFar(l *cm.ID) *cm.ID {
	s.T.Helper()
	id, _ := s.Request(l)
	qp := s.CreateQP(id)
	mr, err := s.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(s.T, err)
	_, err = qp.PostRecv([]verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(mr, 0, 4096)}}})
	require.NoError(s.T, err)
	require.NoError(s.T, id.Accept(nil))
	s.Want(cm.Established, id)
	require.True(s.T, overUDP(id))
	require.NoError(s.T, completions(s.T, s.CQ, 1)[0].Err())
	return id
}

func TestFarOnly(t *testing.T) { peerproc.InNetworkNamespace(t, "far-only") }

// peerFarOnly checks that PathAuto drops packets that were sent on this host, even if
// their source is an address of another host. Connections from another host work.
func peerFarOnly(t *testing.T, _ string) {
	peerproc.LinkUp(t, "lo")
	n := newFarNetwork(t)
	nettest.AddAddr(t, "near", "10.77.0.1/24")
	nettest.AddAddr(t, "near", "fd00:77::1/64")
	s := openParty(t, &Config{})
	four := s.Listen(cm.TCP, "10.77.0.1:7471", 0)
	six := s.Listen(cm.TCP, "[fd00:77::1]:7471", 0)
	spoofs := []struct{ from, to string }{
		{"127.0.0.9", "10.77.0.1"},
		{"10.77.0.1", "10.77.0.1"},
		{"::1", "fd00:77::1"},
		{"fd00:77::9", "fd00:77::1"}, // This is the address of another host.
	}
	dropped := uint64(0)
	spoof := func(qpn uint32) {
		for _, c := range spoofs {
			sendSpoofed(t, netip.MustParseAddr(c.from), netip.AddrPortFrom(netip.MustParseAddr(c.to), 7471), qpn, "")
			dropped++
		}
		for countsOf(t, s.p.dev)["rcvd_overrun_err"] < dropped {
			s.Quiet()
			time.Sleep(time.Millisecond)
		}
		s.Quiet()
		require.Equal(t, dropped, countsOf(t, s.p.dev)["rcvd_overrun_err"])
	}
	spoof(wire.GSIQPN)
	require.Zero(t, countsOf(t, s.p.dev)["rcvd_pkts"])

	for _, l := range []*cm.ID{four, six} {
		line, kill := n.start("far-client", l.LocalAddr().String())
		id := s.acceptFar(l)
		require.Equal(t, "sent", line())
		spoof(id.QP().Num())
		kill()
	}
}

func TestFromHereByAnotherLink(t *testing.T) { peerproc.InNetworkNamespace(t, "from-here") }

// peerFromHere checks that PathAuto drops a request between two interfaces of this host.
func peerFromHere(t *testing.T, _ string) {
	peerproc.LinkUp(t, "lo")
	err := nettest.Change(vethRequest("out", "back", ownNetwork(t)))
	if err == unix.EOPNOTSUPP {
		t.Skip("the kernel has no veth interfaces")
	}
	require.NoError(t, err)
	peerproc.LinkUp(t, "out")
	peerproc.LinkUp(t, "back")
	nettest.AddAddr(t, "out", "fd00:78::2/64")
	nettest.AddAddr(t, "back", "fd00:78::1/64")
	if os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) == nil {
		require.True(t, nettest.IsLocal(t, netip.MustParseAddr("fd00:78::")), "a router has the anycast address of its network")
	}
	s := openParty(t, &Config{})
	l := s.Listen(cm.TCP, "[fd00:78::1]:7471", 0)
	sendSpoofed(t, netip.MustParseAddr("fd00:78::2"), l.LocalAddr(), wire.GSIQPN, "out")
	s.awaitCount("rcvd_user_err", 1)
	s.Quiet()
	require.EqualValues(t, 1, countsOf(t, s.p.dev)["rcvd_pkts"], "the filter passes the packet")
}

// sendSpoofed sends a connection request with the source address src. If the parameter
// link is empty, the kernel chooses the interface.
func sendSpoofed(t *testing.T, src netip.Addr, dst netip.AddrPort, qpn uint32, link string) {
	t.Helper()
	fd, err := hostport.UDPSocket(src)
	require.NoError(t, err)
	defer unix.Close(fd)
	if src.Is6() {
		const freebind = 78 // IPV6_FREEBIND (linux/in6.h)
		require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, freebind, 1))
	}
	if link != "" {
		require.NoError(t, unix.BindToDevice(fd, link))
	}
	require.NoError(t, unix.Bind(fd, hostport.Sockaddr(src, 0)))
	var m wire.MAD
	req := wire.REQ{
		LocalID: 1, CAGUID: 1, ServiceID: wire.NewServiceID(uint16(cm.TCP), dst.Port()), QPN: 99, MTU: uint8(verbs.MTU1024),
		Primary: wire.Path{LocalGID: wire.NewGID(src), RemoteGID: wire.NewGID(dst.Addr())},
	}
	header := wire.CMAHeader{SrcPort: 9, Src: src, Dst: dst.Addr()}
	header.Encode(req.PrivateData[:])
	req.Encode(&m, 1)
	pkt := wire.Build(make([]byte, wire.MaxPacket), wire.UDSendOnly, wire.MADSize)
	pkt.BTH().SetDestQP(qpn)
	pkt.DETH().Set(wire.GSIQKey, wire.GSIQPN)
	copy(pkt.Payload(), m[:])
	local, err := hostport.LocalAddr(fd)
	require.NoError(t, err)
	var flow wire.Flow
	flow.Set(local, netip.AddrPortFrom(dst.Addr(), wire.UDPPort))
	flow.Seal(pkt, 0)
	require.NoError(t, unix.Sendto(fd, pkt.Bytes(), 0, hostport.Sockaddr(dst.Addr(), wire.UDPPort)))
}
