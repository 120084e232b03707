//go:build linux

package hostport

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The cache asks the kernel about an address at most once per localAddrTTL. The number
// of entries is bounded.
func TestLocalAddrCache(t *testing.T) {
	var c LocalAddrCache
	now := time.Hour
	isLocal := func(a netip.Addr) bool {
		local, err := c.Contains(a, now)
		require.NoError(t, err)
		return local
	}
	a := netip.MustParseAddr("203.0.113.7")
	require.False(t, isLocal(a))
	require.True(t, isLocal(netip.MustParseAddr("::1")))
	// The kernel would answer false, so a true answer comes from the cache.
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
