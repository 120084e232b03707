//go:build linux

package access

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":          "192.0.2.1",
		"::ffff:192.0.2.1":   "192.0.2.1",
		"2001:db8:1:2:3::4":  "2001:db8:1:2::",
		"fe80::1:2%eth0":     "fe80::",
		"2001:db8:1:2::ffff": "2001:db8:1:2::",
	} {
		require.Equal(t, netip.MustParseAddr(want), SourceOf(netip.MustParseAddr(addr)))
	}
}

func TestSiteOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3::4":    "2001:db8:1::",
		"2001:db8:1:ffff::4%2": "2001:db8:1::",
	} {
		require.Equal(t, netip.MustParseAddr(want), siteOf(netip.MustParseAddr(addr)))
	}
}
