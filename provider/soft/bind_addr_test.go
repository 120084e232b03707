//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

func spotAt(at string) bindAddr { return newBindAddr(cm.TCP, netip.MustParseAddrPort(at), false) }

func onlySixAt(at string) bindAddr { return newBindAddr(cm.TCP, netip.MustParseAddrPort(at), true) }

func TestSpotName(t *testing.T) {
	for want, s := range map[string]bindAddr{
		"@rdmaloop/1/tcp/127.0.0.1/7471": spotAt("127.0.0.1:7471"),
		"@rdmaloop/1/tcp/::1/7471":       spotAt("[::1]:7471"),
		"@rdmaloop/1/tcp/10.0.0.1/1":     spotAt("[::ffff:10.0.0.1]:1"),
		"@rdmaloop/1/tcp/fe80::1/2":      spotAt("[fe80::1%eth0]:2"),
		"@rdmaloop/1/tcp/*4/3":           spotAt("0.0.0.0:3"),
		"@rdmaloop/1/tcp/*6/4":           spotAt("[::]:4"),
		"@rdmaloop/1/tcp/*6only/5":       onlySixAt("[::]:5"),
		"@rdmaloop/1/udp/*4/6":           newBindAddr(cm.UDP, netip.MustParseAddrPort("0.0.0.0:6"), true),
		"@rdmaloop/1/tcp/*4/7/shared/9":  {ps: cm.TCP, addr: netip.IPv4Unspecified(), port: 7, shared: 9},
	} {
		require.Equal(t, want, s.name())
		got, ok := parseBindAddr(s.ps, want)
		require.True(t, ok)
		require.Equal(t, s, got)
	}
}

// Anybody can take any name.
func TestParseSpotRefuses(t *testing.T) {
	for _, name := range []string{
		"", "@", "@rdmaloop/1/tcp", "@rdmaloop/1/tcp/", "@rdmaloop/1/tcp/127.0.0.1", "@rdmaloop/1/tcp/127.0.0.1/",
		"@rdmaloop/1/tcp/127.0.0.1/65536", "@rdmaloop/1/tcp/127.0.0.1/-1", "@rdmaloop/1/tcp/127.0.0.1/+1",
		"@rdmaloop/1/tcp/127.0.0.1/007", "@rdmaloop/1/tcp/127.0.0.1/7/7", "@rdmaloop/1/tcp/127.0.0.01/7",
		"@rdmaloop/1/tcp/0.0.0.0/7", "@rdmaloop/1/tcp/::/7", "@rdmaloop/1/tcp/*5/7", "@rdmaloop/1/tcp/::ffff:1.2.3.4/7",
		"@rdmaloop/1/tcp/fe80::1%eth0/7", "@rdmaloop/1/udp/127.0.0.1/7", "@rdmaloop/2/tcp/127.0.0.1/7", "@other",
		"@rdmaloop/1/tcp/127.0.0.1/7/shared/", "@rdmaloop/1/tcp/127.0.0.1/7/shared/0", "@rdmaloop/1/tcp/127.0.0.1/7/shared/4294967296",
	} {
		_, ok := parseBindAddr(cm.TCP, name)
		require.False(t, ok, name)
	}
}

func TestSpotOverlaps(t *testing.T) {
	v4, other4, v6 := spotAt("127.0.0.1:7"), spotAt("127.0.0.2:7"), spotAt("[::1]:7")
	any4, any6, only6 := spotAt("0.0.0.0:7"), spotAt("[::]:7"), onlySixAt("[::]:7")
	for _, c := range []struct {
		a, b bindAddr
		want bool
	}{
		{v4, v4, true}, {v4, other4, false}, {v4, v6, false},
		{any4, v4, true}, {any4, v6, false}, {any4, any4, true},
		{any6, v4, true}, {any6, v6, true}, {any6, any4, true}, {any6, any6, true},
		{only6, v4, false}, {only6, v6, true}, {only6, any4, false}, {only6, any6, true}, {only6, only6, true},
	} {
		require.Equal(t, c.want, c.a.overlaps(c.b), "%s, %s", c.a.name(), c.b.name())
		require.Equal(t, c.want, c.b.overlaps(c.a), "%s, %s", c.b.name(), c.a.name())
	}
}

// Every spot that a request is for is among those that are tried, and the other
// way round.
func TestTargets(t *testing.T) {
	spots := []bindAddr{spotAt("127.0.0.1:7"), spotAt("[::1]:7"), spotAt("0.0.0.0:7"), spotAt("[::]:7"), onlySixAt("[::]:7"), spotAt("127.0.0.1:8")}
	for _, at := range []string{"127.0.0.1:7", "[::1]:7"} {
		dst := netip.MustParseAddrPort(at)
		tried := targets(cm.TCP, dst)
		require.Equal(t, newBindAddr(cm.TCP, dst, false), tried[0], "the closest comes first")
		for _, s := range spots {
			require.Equal(t, s.covers(dst), contains(tried, s), "%s for %s", s.name(), at)
		}
	}
}

func contains(spots []bindAddr, s bindAddr) bool {
	for _, o := range spots {
		if o == s {
			return true
		}
	}
	return false
}

func FuzzParseSpot(f *testing.F) {
	f.Add("@rdmaloop/1/tcp/127.0.0.1/7471")
	f.Add("@rdmaloop/1/tcp/*6only/1")
	f.Add("@rdmaloop/1/tcp/fe80::1%a/b/1")
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseBindAddr(cm.TCP, name); ok {
			require.Equal(t, name, s.name())
		}
	})
}
