//go:build linux

package connmgr

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestPathMTU(t *testing.T) {
	for bytes, want := range map[int]verbs.MTU{
		0: verbs.MTU256, 1280: verbs.MTU1024, 1500: verbs.MTU1024, 4191: verbs.MTU2048, 4192: verbs.MTU4096, 1 << 16: verbs.MTU4096,
	} {
		require.Equal(t, want, pathMTU(bytes), "%d", bytes)
	}
}

func TestInterfaceMTU(t *testing.T) {
	require.GreaterOrEqual(t, interfaceMTU(netip.MustParseAddr("127.9.1.1")), 1<<15)
	require.GreaterOrEqual(t, interfaceMTU(netip.MustParseAddr("::1")), 1<<15)
	require.Zero(t, interfaceMTU(netip.MustParseAddr("203.0.113.1")), "not an address of this host")
}
