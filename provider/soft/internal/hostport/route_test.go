//go:build linux

package hostport

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

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

func FuzzRouteAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add(routeRequest(netip.IPv6Loopback()))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseRoute(b) })
}

// The cache asks the kernel about an address once per localAddrTTL, and its size is
// limited.
func TestLocalAddrCache(t *testing.T) {
	c := LocalAddrCache{Host: thisHost}
	now := time.Hour
	isLocal := func(a netip.Addr) bool {
		local, err := c.Contains(a, now)
		require.NoError(t, err)
		return local
	}
	a := netip.MustParseAddr("203.0.113.7")
	require.False(t, isLocal(a))
	require.True(t, isLocal(netip.MustParseAddr("::1")))
	// The kernel would answer false, so the answer true comes from the cache.
	c.known[a] = true
	require.True(t, isLocal(a))
	now += localAddrTTL
	require.False(t, isLocal(a))
	for i := range maxLocalAddrs {
		c.known[netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})] = true
	}
	require.False(t, isLocal(a))
	require.Equal(t, map[netip.Addr]bool{a: false}, c.known)
}

// The cache asks the kernel for a source address once per localAddrTTL.
func TestLocalAddrCacheSource(t *testing.T) {
	c := LocalAddrCache{Host: thisHost}
	now := time.Hour
	source := func(dst netip.Addr) netip.Addr {
		src, err := c.SourceFor(dst, now)
		require.NoError(t, err)
		return src
	}
	dst, other := netip.MustParseAddr("127.0.0.5"), netip.MustParseAddr("127.0.0.9")
	kernel := source(dst)
	require.True(t, kernel.IsLoopback())
	// The kernel would choose another address, so this one comes from the cache.
	c.sources[dst] = other
	require.Equal(t, other, source(dst))
	now += localAddrTTL
	require.Equal(t, kernel, source(dst))
}

// CheckOwn asks the kernel again about an address that was not local before.
func TestLocalAddrCacheCheckOwn(t *testing.T) {
	c := LocalAddrCache{Host: thisHost}
	a := netip.MustParseAddr("127.0.0.1")
	require.NoError(t, c.CheckOwn(a, 0))
	require.True(t, c.known[a])
	c.known[a] = false
	require.NoError(t, c.CheckOwn(a, 0))
	foreign := netip.MustParseAddr("203.0.113.7")
	require.ErrorIs(t, c.CheckOwn(foreign, 0), cm.ErrAddrNotAvailable)
	// The kernel would refuse this address, so the success comes from the cache.
	c.known[foreign] = true
	require.NoError(t, c.CheckOwn(foreign, 0))
	require.ErrorIs(t, c.CheckOwn(foreign, localAddrTTL), cm.ErrAddrNotAvailable)
}
