//go:build linux

package soft

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func isOnThisHost(t *testing.T, a netip.Addr) bool {
	t.Helper()
	is, err := onThisHost(a)
	require.NoError(t, err)
	return is
}

func TestOnThisHost(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1":       true,
		"127.9.9.9":       true,
		"0.0.0.0":         true,
		"203.0.113.7":     false,
		"224.0.0.1":       false,
		"255.255.255.255": false,
		"127.255.255.255": false,
		"2001:db8::1":     false,
		"ff02::1":         false,
		"fe80::1234":      false,
	} {
		a := netip.MustParseAddr(address)
		require.Equal(t, want, isOnThisHost(t, a), address)
		can, err := canBind(a)
		require.NoError(t, err)
		require.Equal(t, want, can, address)
	}
}

// onThisHost finds link-local addresses without a zone, because requests name them
// so.
func TestOnThisHostWithoutZone(t *testing.T) {
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		require.True(t, isOnThisHost(t, netip.MustParsePrefix(a.String()).Addr()), "%v", a)
	}
}

// TestOnThisHostNonlocalBind runs in a network namespace in which sockets can be
// bound to addresses of other hosts.
func TestOnThisHostNonlocalBind(t *testing.T) {
	needsRoot(t)
	cmd := asPeer(t, "nonlocal-bind", "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := cmd.Output()
	if errors.Is(err, unix.EPERM) {
		t.Skip("this process may not make network namespaces")
	}
	require.NoError(t, err)
	if string(out) == "no setting\n" {
		t.Skip("the settings of the network can not be written here")
	}
	require.Equal(t, "can bind true, on this host false\n", string(out))
}

func peerNonlocalBind(t *testing.T, _ string) {
	if os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0) != nil {
		say("no setting")
		return
	}
	a := netip.MustParseAddr("2001:db8::7")
	routeByLoopback(t, a)
	can, err := canBind(a)
	require.NoError(t, err)
	say("can bind " + strconv.FormatBool(can) + ", on this host " + strconv.FormatBool(isOnThisHost(t, a)))
}

// routeByLoopback brings the loopback interface up, and adds a route to an address by
// that interface.
func routeByLoopback(t *testing.T, a netip.Addr) {
	fd, err := datagramSocket(a)
	require.NoError(t, err)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	lo.SetUint16(unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))

	const loopback = 1 // index of the loopback interface in every network namespace
	b := routeRequest(a)
	b = netlink.AppendAttr(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_NEWROUTE)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_ACK)
	r := b[unix.SizeofNlMsghdr:]
	r[4], r[5], r[6], r[7] = unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_LINK, unix.RTN_UNICAST
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	require.NoError(t, err)
	require.NoError(t, unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	answer := make([]byte, 4096)
	_, _, err = unix.Recvfrom(fd, answer, 0)
	require.NoError(t, err)
	require.Zero(t, binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:]))
}

// isLocalAddr caches for a while whether an address belongs to this host. It never asks
// the system about a loopback address.
func TestOwnAddresses(t *testing.T) {
	s := newParty(t)
	clock := useClock(s)
	isOwn := func(a netip.Addr) bool {
		own, err := s.tc.isLocalAddr(a)
		require.NoError(t, err)
		return own
	}
	a := netip.MustParseAddr("203.0.113.7")
	require.False(t, isOwn(a))
	require.True(t, isOwn(netip.MustParseAddr("::1")))
	s.tc.localAddrs.known[a] = true // as if the system had confirmed it
	require.True(t, isOwn(a))
	clock.advance(localAddrTTL)
	require.False(t, isOwn(a))
	for i := range maxLocalAddrs {
		s.tc.localAddrs.known[netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})] = true
	}
	require.False(t, isOwn(a))
	require.Equal(t, map[netip.Addr]bool{a: false}, s.tc.localAddrs.known)
}

// peerUnknownHost has no descriptors to ask the system whether an address is its own.
func peerUnknownHost(t *testing.T, _ string) {
	s := newParty(t)
	a := netip.MustParseAddr("203.0.113.7")
	exhaustDescriptors(t)
	_, err := canBind(a)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	_, err = s.tc.isLocalAddr(a)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.Empty(t, s.tc.localAddrs.known)
	_, err = s.pd.CreateAH(&verbs.AHAttr{Port: 1, DestGID: verbs.GIDFromAddr(a)})
	require.ErrorIs(t, err, verbs.ErrNoResources, "the wire may not be the path")
	say("done")
	linger()
}

// A process without free descriptors does not treat an address as one of another host:
// it does not check the users of peers on other hosts.
func TestOnThisHostOutOfDescriptors(t *testing.T) {
	line, kill := startPeer(t, "unknown-host", "")
	require.Equal(t, "done", line())
	kill()
}

func TestParseRouteRefuses(t *testing.T) {
	good := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	good[4] = unix.RTM_NEWROUTE
	_, err := parseRoute(good)
	require.NoError(t, err)
	for _, b := range [][]byte{nil, good[:unix.SizeofNlMsghdr], good[:len(good)-1], make([]byte, 64)} {
		_, err := parseRoute(b)
		require.Error(t, err)
	}
}
