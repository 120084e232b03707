//go:build linux

package hostport

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/netlink"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func isOnThisHost(t *testing.T, a netip.Addr) bool {
	t.Helper()
	is, err := thisHost.OnThisHost(a)
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

// OnThisHost finds a link-local address without a zone. Connection requests have such
// addresses.
func TestOnThisHostWithoutZone(t *testing.T) {
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		require.True(t, isOnThisHost(t, netip.MustParsePrefix(a.String()).Addr()), "%v", a)
	}
}

func TestInterfaceMTU(t *testing.T) {
	require.GreaterOrEqual(t, thisHost.InterfaceMTU(netip.MustParseAddr("127.9.1.1")), 1<<15)
	require.GreaterOrEqual(t, thisHost.InterfaceMTU(netip.MustParseAddr("::1")), 1<<15)
	require.Zero(t, thisHost.InterfaceMTU(netip.MustParseAddr("203.0.113.1")), "not an address of this host")
}

// routeByLoopback brings up the loopback interface, and routes an address through it.
func routeByLoopback(t *testing.T, a netip.Addr) {
	fd, err := UDPSocket(a)
	require.NoError(t, err)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	lo.SetUint16(unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))

	// Index of the loopback interface in every network namespace.
	const loopback = 1
	b := routeRequest(a)
	b = netlink.AppendAttr(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
	netlink.PutHeader(b, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_ACK)
	r := b[unix.SizeofNlMsghdr:]
	r[4], r[5], r[6], r[7] = unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_LINK, unix.RTN_UNICAST
	answer, err := netlink.Ask(unix.NETLINK_ROUTE, b)
	require.NoError(t, err)
	_, _, err = netlink.Parse(answer)
	require.Equal(t, unix.Errno(0), err)
}

// childCase is an environment variable. TestChild calls the function that has this name
// in the map children.
const childCase = "RDMALOOP_HOSTPORT_CHILD"

// inChild runs the function with the given name in the map children, in a process with
// the attributes attr.
func inChild(t *testing.T, name string, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestChild$", "-test.v")
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), childCase+"="+name), attr
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skip("this process may not make network namespaces")
	}
	require.NoError(t, err, "%s", out)
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("%s", out)
	}
}

var children = map[string]func(*testing.T){"nonlocal-bind": childNonlocalBind, "no-descriptors": childNoDescriptors}

// TestChild runs in the process of inChild. Elsewhere it does nothing.
func TestChild(t *testing.T) {
	if run := children[os.Getenv(childCase)]; run != nil {
		run(t)
	}
}

// OnThisHost is false for an address of another host, even if this host may bind it.
func TestOnThisHostNonlocalBind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	inChild(t, "nonlocal-bind", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
}

func childNonlocalBind(t *testing.T) {
	if os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0) != nil {
		t.Skip("the settings of the network can not be written here")
	}
	a := netip.MustParseAddr("2001:db8::7")
	routeByLoopback(t, a)
	can, err := canBind(a)
	require.NoError(t, err)
	require.True(t, can)
	require.False(t, isOnThisHost(t, a))
}

// Without free descriptors, OnThisHost returns verbs.ErrNoResources.
func TestOnThisHostNoDescriptors(t *testing.T) { inChild(t, "no-descriptors", nil) }

func childNoDescriptors(t *testing.T) {
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: 0}))
	a := netip.MustParseAddr("203.0.113.7")
	_, err := canBind(a)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	_, err = thisHost.OnThisHost(a)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	c := LocalAddrCache{Host: thisHost}
	_, err = c.Contains(a, 0)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.Empty(t, c.known)
}
