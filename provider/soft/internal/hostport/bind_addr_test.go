//go:build linux

package hostport

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// thisHost is the host of the tests.
var thisHost = New(nil)

func addrAt(at string) BindAddr {
	return thisHost.NewBindAddr(cm.TCP, netip.MustParseAddrPort(at), false)
}

func v6OnlyAt(at string) BindAddr {
	return thisHost.NewBindAddr(cm.TCP, netip.MustParseAddrPort(at), true)
}

func TestBindAddrName(t *testing.T) {
	for want, s := range map[string]BindAddr{
		"@rdmaloop/1/tcp/127.0.0.1/7471": addrAt("127.0.0.1:7471"),
		"@rdmaloop/1/tcp/::1/7471":       addrAt("[::1]:7471"),
		"@rdmaloop/1/tcp/10.0.0.1/1":     addrAt("[::ffff:10.0.0.1]:1"),
		"@rdmaloop/1/tcp/fe80::1/2":      addrAt("[fe80::1%eth0]:2"),
		"@rdmaloop/1/tcp/*4/3":           addrAt("0.0.0.0:3"),
		"@rdmaloop/1/tcp/*6/4":           addrAt("[::]:4"),
		"@rdmaloop/1/tcp/*6only/5":       v6OnlyAt("[::]:5"),
		"@rdmaloop/1/udp/*4/6":           thisHost.NewBindAddr(cm.UDP, netip.MustParseAddrPort("0.0.0.0:6"), true),
		"@rdmaloop/1/tcp/*4/7/shared/9":  {host: thisHost, ps: cm.TCP, Addr: netip.IPv4Unspecified(), Port: 7, Shared: 9},
	} {
		require.Equal(t, want, s.Name())
		got, ok := thisHost.ParseBindAddr(s.ps, want)
		require.True(t, ok)
		require.Equal(t, s, got)
	}
}

// ParseBindAddr refuses names that BindAddr.Name never returns.
func TestParseBindAddrRefuses(t *testing.T) {
	for _, name := range []string{
		"", "@", "@rdmaloop/1/tcp", "@rdmaloop/1/tcp/", "@rdmaloop/1/tcp/127.0.0.1", "@rdmaloop/1/tcp/127.0.0.1/",
		"@rdmaloop/1/tcp/127.0.0.1/65536", "@rdmaloop/1/tcp/127.0.0.1/-1", "@rdmaloop/1/tcp/127.0.0.1/+1",
		"@rdmaloop/1/tcp/127.0.0.1/007", "@rdmaloop/1/tcp/127.0.0.1/7/7", "@rdmaloop/1/tcp/127.0.0.01/7",
		"@rdmaloop/1/tcp/0.0.0.0/7", "@rdmaloop/1/tcp/::/7", "@rdmaloop/1/tcp/*5/7", "@rdmaloop/1/tcp/::ffff:1.2.3.4/7",
		"@rdmaloop/1/tcp/fe80::1%eth0/7", "@rdmaloop/1/udp/127.0.0.1/7", "@rdmaloop/2/tcp/127.0.0.1/7", "@other",
		"@rdmaloop/1/sim/a/tcp/127.0.0.1/7",
		"@rdmaloop/1/tcp/127.0.0.1/7/shared/", "@rdmaloop/1/tcp/127.0.0.1/7/shared/0", "@rdmaloop/1/tcp/127.0.0.1/7/shared/4294967296",
	} {
		_, ok := thisHost.ParseBindAddr(cm.TCP, name)
		require.False(t, ok, name)
	}
}

func TestBindAddrOverlaps(t *testing.T) {
	v4, other4, v6 := addrAt("127.0.0.1:7"), addrAt("127.0.0.2:7"), addrAt("[::1]:7")
	any4, any6, only6 := addrAt("0.0.0.0:7"), addrAt("[::]:7"), v6OnlyAt("[::]:7")
	for _, c := range []struct {
		a, b BindAddr
		want bool
	}{
		{v4, v4, true}, {v4, other4, false}, {v4, v6, false},
		{any4, v4, true}, {any4, v6, false}, {any4, any4, true},
		{any6, v4, true}, {any6, v6, true}, {any6, any4, true}, {any6, any6, true},
		{only6, v4, false}, {only6, v6, true}, {only6, any4, false}, {only6, any6, true}, {only6, only6, true},
	} {
		require.Equal(t, c.want, c.a.overlaps(c.b), "%s, %s", c.a.Name(), c.b.Name())
		require.Equal(t, c.want, c.b.overlaps(c.a), "%s, %s", c.b.Name(), c.a.Name())
	}
}

// The result of Targets has every BindAddr that covers the destination.
func TestTargets(t *testing.T) {
	addrs := []BindAddr{addrAt("127.0.0.1:7"), addrAt("[::1]:7"), addrAt("0.0.0.0:7"), addrAt("[::]:7"), v6OnlyAt("[::]:7"), addrAt("127.0.0.1:8")}
	for _, at := range []string{"127.0.0.1:7", "[::1]:7"} {
		dst := netip.MustParseAddrPort(at)
		tried := thisHost.Targets(cm.TCP, dst)
		require.Equal(t, thisHost.NewBindAddr(cm.TCP, dst, false), tried[0], "the closest comes first")
		for _, s := range addrs {
			require.Equal(t, s.Covers(dst), contains(tried[:], s), "%s for %s", s.Name(), at)
		}
	}
}

func contains(addrs []BindAddr, s BindAddr) bool {
	for _, o := range addrs {
		if o == s {
			return true
		}
	}
	return false
}

func FuzzParseBindAddr(f *testing.F) {
	f.Add("@rdmaloop/1/tcp/127.0.0.1/7471")
	f.Add("@rdmaloop/1/tcp/*6only/1")
	f.Add("@rdmaloop/1/tcp/fe80::1%a/b/1")
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := thisHost.ParseBindAddr(cm.TCP, name); ok {
			require.Equal(t, name, s.Name())
		}
	})
}
