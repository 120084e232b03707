package netaddr_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/netaddr"
)

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ network, text, listen, dial string }{
		{"rdma", "192.0.2.1:7471", "192.0.2.1:7471", "192.0.2.1:7471"},
		{"tcp", "[2001:db8::1]:7471", "[2001:db8::1]:7471", "[2001:db8::1]:7471"},
		{"tcp6", "[fe80::1%lo]:1", "[fe80::1%lo]:1", "[fe80::1%lo]:1"},
		{"rdma", "[::ffff:192.0.2.1]:1", "192.0.2.1:1", "192.0.2.1:1"},
		{"rdma4", "192.0.2.1:http", "192.0.2.1:80", "192.0.2.1:80"},
		{"rdma", "localhost:7471", "127.0.0.1:7471", "127.0.0.1:7471"},
		{"rdma", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:0"},
		{"rdma", ":7471", "[::]:7471", "127.0.0.1:7471"},
		{"rdma4", ":7471", "0.0.0.0:7471", "127.0.0.1:7471"},
		{"rdma6", ":7471", "[::]:7471", "[::1]:7471"},
		{"rdma", "0.0.0.0:7471", "0.0.0.0:7471", "127.0.0.1:7471"},
		{"rdma", "[::]:7471", "[::]:7471", "[::1]:7471"},
	} {
		at, err := netaddr.Listen(t.Context(), test.network, test.text)
		require.NoError(t, err)
		require.Equal(t, test.listen, at.String(), "listen %+v", test)
		to, err := netaddr.Dial(t.Context(), test.network, test.text)
		require.NoError(t, err)
		require.Equal(t, test.dial, to[0].String(), "dial %+v", test)
	}
}

// TestSeveralAddresses checks the order of the addresses of one name.
func TestSeveralAddresses(t *testing.T) {
	var found []net.IPAddr
	for _, text := range []string{"2001:db8::2", "192.0.2.9", "2001:db8::1", "192.0.2.1"} {
		found = append(found, net.IPAddr{IP: net.ParseIP(text)})
	}
	four := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:7"), netip.MustParseAddrPort("192.0.2.1:7")}
	six := []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::2]:7"), netip.MustParseAddrPort("[2001:db8::1]:7")}
	require.Equal(t, append(slices.Clone(four), six...), netaddr.Suitable(found, "rdma", 7))
	require.Equal(t, four, netaddr.Suitable(found, "tcp4", 7))
	require.Equal(t, six, netaddr.Suitable(found, "rdma6", 7))
}

// TestErrorsText checks the whole texts, which are those of package net, and the types.
func TestErrorsText(t *testing.T) {
	addrError, unknown := &net.AddrError{}, net.UnknownNetworkError("")
	for _, test := range []struct {
		network, text, want string
		typed               any
	}{
		{"tcp", "localhost", "address localhost: missing port in address", &addrError},
		{"tcp", "", "missing port in address", &addrError},
		{"tcp", "::1:7471", "address ::1:7471: too many colons in address", &addrError},
		{"tcp", "127.0.0.1:65536", "address 65536: invalid port", &addrError},
		{"tcp", "127.0.0.1:-1", "address -1: invalid port", &addrError},
		{"tcp4", "[::1]:1", "address ::1: no suitable address found", &addrError},
		{"unix", "127.0.0.1:1", "unknown network unix", &unknown},
	} {
		_, err := netaddr.Listen(t.Context(), test.network, test.text)
		require.EqualError(t, err, test.want)
		require.ErrorAs(t, err, test.typed)
		_, err = netaddr.Dial(t.Context(), test.network, test.text)
		require.EqualError(t, err, test.want)
	}
}

// TestNames checks names that have no address, and that ctx ends a lookup. No lookup leaves
// the host.
func TestNames(t *testing.T) {
	var dns *net.DNSError
	_, err := netaddr.Listen(t.Context(), "tcp", "two words:1")
	require.ErrorAs(t, err, &dns)
	require.True(t, dns.IsNotFound)
	_, err = netaddr.Listen(t.Context(), "tcp", "127.0.0.1:no-such-service")
	require.ErrorAs(t, err, &dns)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = netaddr.Dial(ctx, "tcp", "two.words.invalid:1")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, err, &dns)
}
