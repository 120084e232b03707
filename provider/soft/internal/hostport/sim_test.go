//go:build linux

package hostport

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
)

// A fakeHost is a simulated host on the network fd00::/64.
type fakeHost struct {
	simhost.Host
	name string
	addr netip.Addr
	rng  *rand.PCG
}

func newFakeHost(name, addr string) *fakeHost {
	// The process ID keeps the names of two runs of the tests apart.
	return &fakeHost{name: fmt.Sprintf("%d-%s", os.Getpid(), name), addr: netip.MustParseAddr(addr), rng: rand.NewPCG(1, 2)}
}

func (h *fakeHost) Name() string        { return h.name }
func (h *fakeHost) Addrs() []netip.Addr { return []netip.Addr{h.addr} }
func (h *fakeHost) MTU() int            { return 1500 }
func (h *fakeHost) Random() uint64      { return h.rng.Uint64() }
func (*fakeHost) Opened(int)            {}

func (h *fakeHost) SourceFor(dst netip.Addr) (netip.Addr, bool) {
	return h.addr, netip.MustParsePrefix("fd00::/64").Contains(dst)
}

// bindOn reserves a TCP port of a host.
func bindOn(t *testing.T, h *Host, at string, reuse bool) (Reservation, error) {
	r, err := h.Reserve(cm.TCP, netip.MustParseAddrPort(at), false, reuse, h.EphemeralPorts)
	t.Cleanup(r.Close)
	return r, err
}

func mustBindOn(t *testing.T, h *Host, at string) Reservation {
	t.Helper()
	r, err := bindOn(t, h, at, false)
	require.NoError(t, err)
	return r
}

func TestSimulatedAddresses(t *testing.T) {
	h := New(newFakeHost("a", "fd00::1"))
	for address, want := range map[string]bool{
		"fd00::1": true, "fd00::1%eth0": true, "127.0.0.1": true, "::ffff:127.9.9.9": true, "::1": true, "0.0.0.0": true, "::": true,
		"fd00::2": false, "10.0.0.1": false,
	} {
		a := netip.MustParseAddr(address)
		own, err := h.OnThisHost(a)
		require.NoError(t, err)
		require.Equal(t, want, own, address)
		require.Equal(t, want, h.CheckOwn(a) == nil, address)
	}
	cache := LocalAddrCache{Host: h}
	for range 2 {
		src, err := cache.SourceFor(netip.MustParseAddr("fd00::2"), time.Hour)
		require.NoError(t, err)
		require.Equal(t, netip.MustParseAddr("fd00::1"), src)
	}
	_, err := cache.SourceFor(netip.MustParseAddr("fd01::2"), time.Hour)
	require.ErrorIs(t, err, cm.ErrNoRoute)
	own, err := cache.Contains(netip.MustParseAddr("fd00::2"), time.Hour)
	require.NoError(t, err)
	require.False(t, own)

	addrs, err := h.Addrs()
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("fd00::1")}, addrs)
	require.True(t, h.FixedAddrs())
	require.Equal(t, 1500, h.InterfaceMTU(addrs[0]))
	require.Equal(t, 1500, h.RouteMTU(addrs[0], netip.MustParseAddr("fd00::2")))
}

// The same addresses and ports of two simulated hosts, and of this host, do not clash.
func TestSimulatedHostsAreApart(t *testing.T) {
	a, b := New(newFakeHost("a", "fd00::1")), New(newFakeHost("b", "fd00::1"))
	for _, at := range []string{"[::1]:7", "0.0.0.0:8", "[::]:9"} {
		mustBindOn(t, a, at)
		mustBindOn(t, b, at)
		_, err := bindOn(t, a, at, false)
		require.True(t, isClash(err), at)
	}
	// A wildcard clashes with an address of its own host only.
	_, err := bindOn(t, a, "[fd00::1]:9", false)
	require.ErrorIs(t, err, cm.ErrAddrNotAvailable)
	require.ErrorContains(t, err, "/sim/"+a.sim.Name()+"/tcp/*6/9")
	mustBindOn(t, a, "[::]:10")
	mustBindOn(t, b, "[fd00::1]:10")
	other, err := thisHost.boundAddrs(cm.TCP, 10)
	require.NoError(t, err)
	for _, o := range other {
		require.Equal(t, thisHost, o.host)
	}
	held, err := b.boundAddrs(cm.TCP, 10)
	require.NoError(t, err)
	require.Equal(t, []BindAddr{b.NewBindAddr(cm.TCP, netip.MustParseAddrPort("[fd00::1]:10"), false)}, held)
}

// The search for a free port finds the markers of its own host only, and takes the same
// ports again with the same random numbers.
func TestSimulatedFreePorts(t *testing.T) {
	var found [2][]uint16
	for i := range found {
		fake := newFakeHost(fmt.Sprintf("free%d", i), "fd00::1")
		h, other := New(fake), New(newFakeHost("other", "fd00::1"))
		for range 5 {
			r := mustBindOn(t, h, "[fd00::1]:0")
			require.GreaterOrEqual(t, r.Addr.Port, uint16(32768))
			require.Less(t, r.Addr.Port, uint16(61000))
			found[i] = append(found[i], r.Addr.Port)
		}
		only := PortRange{Low: 7, High: 7}
		wildcard := mustBindOn(t, h, "[::]:7")
		_, err := h.NewBindAddr(cm.TCP, netip.MustParseAddrPort("[fd00::1]:0"), false).reserveAny(only)
		require.ErrorIs(t, err, cm.ErrAddrNotAvailable)
		r, err := other.NewBindAddr(cm.TCP, netip.MustParseAddrPort("[fd00::1]:0"), false).reserveAny(only)
		require.NoError(t, err)
		r.Close()
		wildcard.Close()
	}
	require.Equal(t, found[0], found[1])
}

// The longest name of a BindAddr of the host with the longest name can be bound.
func TestSimulatedLongestName(t *testing.T) {
	fake := newFakeHost("a", "fd00::1")
	fake.name += strings.Repeat("x", maxHostName-len(fake.name))
	h := New(fake)
	s := h.NewBindAddr(cm.TCP, netip.MustParseAddrPort("[fd00:1111:2222:3333:4444:5555:6666:7777]:65535"), false)
	s.Shared = 1<<32 - 1
	require.Len(t, s.Name(), maxNameLength)
	got, ok := h.ParseBindAddr(cm.TCP, s.Name())
	require.True(t, ok)
	require.Equal(t, s, got)
	r, err := s.reserve(mayNotShare)
	require.NoError(t, err)
	r.Close()

	for _, bad := range []string{"", fake.name + "x", "a/b", "a b"} {
		fake.name = bad
		require.Panics(t, func() { New(fake) }, "%q", bad)
	}
}
