//go:build linux

package unixcm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/nettest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// at returns an address with the port to which the parameter port is bound.
func at(addr string, port *cm.ID) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port.LocalAddr().Port())
}

func TestBindPorts(t *testing.T) {
	s := newParty(t)
	id := s.ID(cm.TCP)
	require.NoError(t, id.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	ports, err := hostport.New(nil).EphemeralPorts()
	require.NoError(t, err)
	require.GreaterOrEqual(t, int(id.LocalAddr().Port()), ports.Low)
	require.LessOrEqual(t, int(id.LocalAddr().Port()), ports.High)
	require.Same(t, s.Dev, id.Device())

	// An ID that is bound to a wildcard has no device.
	wild := s.ID(cm.TCP)
	require.NoError(t, wild.Bind(netip.MustParseAddrPort("0.0.0.0:0")))
	require.Nil(t, wild.Device())

	// TCP and UDP are independent port spaces.
	require.NoError(t, s.ID(cm.UDP).Bind(id.LocalAddr()))
	// IDs and TCP sockets have separate ports.
	tcp, err := net.Listen("tcp", "127.0.0.33:0")
	require.NoError(t, err)
	defer tcp.Close()
	require.NoError(t, s.ID(cm.TCP).Bind(tcp.Addr().(*net.TCPAddr).AddrPort()))
}

// needAddr skips the test if one of the addresses does not exist on this host.
func needAddr(t *testing.T, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		if a == "::1" && !nettest.IsLocal(t, netip.IPv6Loopback()) {
			t.Skip("this host has no ::1")
		}
	}
}

func TestBindClashes(t *testing.T) {
	for _, c := range []struct {
		first, second string
		want          error
	}{
		{"127.0.0.1", "127.0.0.1", cm.ErrAddrInUse},
		{"127.0.0.1", "127.0.0.2", nil},
		{"::1", "::1", cm.ErrAddrInUse},
		{"::1", "127.0.0.1", nil},
		{"127.0.0.1", "0.0.0.0", cm.ErrAddrNotAvailable},
		{"0.0.0.0", "127.0.0.1", cm.ErrAddrNotAvailable},
		{"0.0.0.0", "0.0.0.0", cm.ErrAddrNotAvailable},
		{"0.0.0.0", "::", cm.ErrAddrNotAvailable},
		{"::", "127.0.0.1", cm.ErrAddrNotAvailable},
		{"::", "::1", cm.ErrAddrNotAvailable},
		{"0.0.0.0", "::1", nil},
	} {
		t.Run(c.first+" "+c.second, func(t *testing.T) {
			needAddr(t, c.first, c.second)
			s := newParty(t)
			first, second := s.ID(cm.TCP), s.ID(cm.TCP)
			require.NoError(t, first.Bind(netip.AddrPortFrom(netip.MustParseAddr(c.first), 0)))
			require.ErrorIs(t, second.Bind(at(c.second, first)), c.want)
			if c.want != nil {
				// The failed Bind has reserved no port, so Bind can be called again.
				require.NoError(t, second.Bind(netip.AddrPortFrom(netip.MustParseAddr(c.second), 0)))
			}
		})
	}
}

func TestBindAFOnly(t *testing.T) {
	s := newParty(t)
	six, four := s.ID(cm.TCP), s.ID(cm.TCP)
	require.NoError(t, six.SetAFOnly(true))
	require.NoError(t, six.Bind(netip.MustParseAddrPort("[::]:0")))
	require.NoError(t, four.Bind(at("0.0.0.0", six)))
	require.ErrorIs(t, s.ID(cm.TCP).Bind(at("::", six)), cm.ErrAddrNotAvailable)
}

func TestBindForeignAddresses(t *testing.T) {
	s := newParty(t)
	require.False(t, nettest.IsLocal(t, netip.MustParseAddr("224.0.0.1")))
	for _, addr := range []string{"203.0.113.7", "255.255.255.255", "0.0.0.1", "2001:db8::1"} {
		id := s.ID(cm.TCP)
		require.ErrorIs(t, id.Bind(netip.AddrPortFrom(netip.MustParseAddr(addr), 0)), cm.ErrAddrNotAvailable, addr)
	}
}

func TestReuseAddr(t *testing.T) {
	s := newParty(t)
	sharing := func() *cm.ID {
		id := s.ID(cm.TCP)
		require.NoError(t, id.SetReuseAddr(true))
		return id
	}
	first, second, third := sharing(), sharing(), sharing()
	require.NoError(t, first.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(t, second.Bind(first.LocalAddr()))
	require.NoError(t, third.Bind(at("0.0.0.0", first)))

	// An ID without REUSEADDR can not bind the shared address.
	require.ErrorIs(t, s.ID(cm.TCP).Bind(first.LocalAddr()), cm.ErrAddrNotAvailable, "the third ID is bound to a wildcard")

	// Only one of several IDs that share a port can listen.
	require.NoError(t, first.Listen(1))
	require.ErrorIs(t, second.Listen(1), cm.ErrAddrInUse)
	require.ErrorIs(t, third.Listen(1), cm.ErrAddrNotAvailable)
	require.ErrorIs(t, sharing().Bind(first.LocalAddr()), cm.ErrAddrInUse)

	// An ID can connect from a shared port.
	other := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	s.Resolve(second, other.LocalAddr())
	s.CreateQP(second)
	require.NoError(t, second.Connect(nil))
	_, ev := s.Request(other)
	require.Equal(t, first.LocalAddr(), ev.ID.RemoteAddr())
}

func TestResolveErrors(t *testing.T) {
	s := makeParty(false).open(t)
	resolve := func(id *cm.ID, src, dst string) error {
		var from netip.AddrPort
		if src != "" {
			from = netip.MustParseAddrPort(src)
		}
		return id.ResolveAddr(from, netip.MustParseAddrPort(dst), time.Second)
	}

	// ResolveAddr fails if there is no route, or if the source belongs to another host.
	require.ErrorIs(t, resolve(s.ID(cm.TCP), "203.0.113.1:0", "127.0.0.1:7"), cm.ErrAddrNotAvailable)
	require.Error(t, resolve(s.ID(cm.TCP), "127.0.0.1:0", "[::1]:7"))

	// If no route leads to the peer on the wire path, ResolveAddr succeeds, and the
	// event AddrError has the error.
	id := s.ID(cm.TCP)
	require.NoError(t, resolve(id, "127.0.0.1:0", "203.0.113.7:7"))
	ev := s.Want(cm.AddrError, id)
	require.Equal(t, connmgr.StatusNoDevice, ev.Status)
	require.ErrorIs(t, ev.Err, cm.ErrNoRoute)
	require.ErrorIs(t, ev.Err, verbs.ErrNotSupported)

	// ResolveAddr can be called again after the event AddrError.
	require.NoError(t, resolve(id, "", "127.0.0.1:7"))
	s.Want(cm.AddrResolved, id)
}

func TestLowPortNeedsPrivilege(t *testing.T) {
	out, err := peerproc.Command("low-port", "").Output()
	require.NoError(t, err)
	require.Equal(t, "permission denied\n", string(out))
}

// peerLowPort tries to reserve a port below 1024 without capabilities (capabilities(7)).
// It prints a line if permission is denied.
func peerLowPort(*testing.T, string) {
	_, err := hostport.New(nil).Reserve(cm.TCP, netip.MustParseAddrPort("127.0.0.1:1023"), false, false, nil)
	if errors.Is(err, os.ErrPermission) {
		os.Stdout.WriteString("permission denied\n")
	}
}

// testPort and the next one are ports of names that the tests bind. Another run of the tests
// has other ports.
var testPort = uint16(10_000 + os.Getpid()%5_000*2)

// withTestPorts replaces PORT by testPort, and NEXT by the one after it.
func withTestPorts(s string) string {
	return strings.NewReplacer("PORT", fmt.Sprint(testPort), "NEXT", fmt.Sprint(testPort+1)).Replace(s)
}

// requireHolder checks that an error matches reason, and names the socket, and the process
// that listens or the user who has bound it.
func requireHolder(t *testing.T, err, reason error, name, holder string) {
	t.Helper()
	require.ErrorIs(t, err, reason)
	require.Regexp(t, fmt.Sprintf(`%v: %s \S+:\d+ \(Unix socket %s\)$`, reason, holder, regexp.QuoteMeta(name)), err.Error())
}

// Texts for requireHolder of a process of peerproc.
var (
	listensThere = fmt.Sprintf(`process [1-9]\d* of user %d listens at`, peerproc.User)
	boundThere   = fmt.Sprintf("a process of user %d has bound", peerproc.User)
)

// If another process has the address, the error of Bind names the user of this process.
func TestBindTellsHolder(t *testing.T) {
	peerproc.NeedsRoot(t)
	name := withTestPorts("@rdmaloop/1/tcp/127.0.0.1/PORT")
	for role, want := range map[string]struct {
		other, holder string
	}{
		"squat-accepting": {"127.0.0.1", listensThere},
		"squat-bound":     {"127.0.0.1", boundThere},
		"squat-full":      {"0.0.0.0", boundThere},
	} {
		t.Run(role, func(t *testing.T) {
			line, kill := peerproc.Start(t, role, name)
			defer kill()
			require.Equal(t, "squatting", line())
			reason := cm.ErrAddrInUse
			if want.other == "0.0.0.0" {
				reason = cm.ErrAddrNotAvailable
			}
			s := newParty(t)
			id := s.ID(cm.TCP)
			requireHolder(t, id.Bind(netip.AddrPortFrom(netip.MustParseAddr(want.other), testPort)), reason, name, want.holder)
		})
	}
}

// A second listener of this process gets an error that says so.
func TestBindTellsOwnListener(t *testing.T) {
	s := newParty(t)
	at := netip.MustParseAddrPort(withTestPorts("127.0.0.1:PORT"))
	first := s.ID(cm.TCP)
	require.NoError(t, first.Bind(at))
	require.NoError(t, first.Listen(0))
	requireHolder(t, s.ID(cm.TCP).Bind(at), cm.ErrAddrInUse, withTestPorts("@rdmaloop/1/tcp/127.0.0.1/PORT"), "this process listens at")
}

// If another process listens on a shared port, the error of Listen names the user of this
// process.
func TestListenTellsHolder(t *testing.T) {
	peerproc.NeedsRoot(t)
	name := withTestPorts("@rdmaloop/1/tcp/127.0.0.1/PORT")
	s := newParty(t)
	id := s.ID(cm.TCP)
	require.NoError(t, id.SetReuseAddr(true))
	require.NoError(t, id.Bind(netip.MustParseAddrPort(withTestPorts("127.0.0.1:PORT"))))
	line, kill := peerproc.Start(t, "squat-accepting", name)
	defer kill()
	require.Equal(t, "squatting", line())
	requireHolder(t, id.Listen(0), cm.ErrAddrInUse, name, listensThere)
}

// A wildcard is reserved with a second socket, the marker, which is a datagram socket.
// The error of Bind names the user of the marker.
func TestBindTellsHolderOfMarker(t *testing.T) {
	name := withTestPorts("@rdmaloop/1/tcp/*4/PORT")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	id := newParty(t).ID(cm.TCP)
	requireHolder(t, id.Bind(netip.MustParseAddrPort(withTestPorts("0.0.0.0:PORT"))),
		cm.ErrAddrNotAvailable, name, fmt.Sprintf("a process of user %d has bound", os.Geteuid()))
}
