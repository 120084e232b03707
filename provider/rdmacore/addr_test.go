//go:build cgo && linux

package rdmacore_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

func TestSockaddr(t *testing.T) {
	for _, text := range []string{
		"192.0.2.1:7000", "0.0.0.0:0", "255.255.255.255:65535",
		"[2001:db8::1]:7000", "[::]:0", "[fe80::1%lo]:80", "[fe80::1%4000000000]:80",
	} {
		addr := netip.MustParseAddrPort(text)
		require.Equal(t, addr, rdmacore.FromSockaddr(rdmacore.ToSockaddr(addr)))
	}
	// If no interface has the name of the zone, the sockaddr has no zone.
	gone := netip.MustParseAddrPort("[fe80::1%nosuch]:80")
	require.Equal(t, "[fe80::1]:80", rdmacore.FromSockaddr(rdmacore.ToSockaddr(gone)).String())
	require.Zero(t, rdmacore.FromSockaddr(rdmacore.Sockaddr{}))
}

// FuzzFromSockaddr checks that an address survives the conversion to bytes and back.
func FuzzFromSockaddr(f *testing.F) {
	v4 := rdmacore.ToSockaddr(netip.MustParseAddrPort("192.0.2.1:7000"))
	v6 := rdmacore.ToSockaddr(netip.MustParseAddrPort("[fe80::1%1]:7000"))
	f.Add(v4[:])
	f.Add(v6[:])
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var raw rdmacore.Sockaddr
		copy(raw[:], b)
		addr := rdmacore.FromSockaddr(raw)
		require.Equal(t, addr, rdmacore.FromSockaddr(rdmacore.ToSockaddr(addr)))
	})
}
