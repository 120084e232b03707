//go:build linux

package connmgr

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestPathMTU(t *testing.T) {
	require.Equal(t, verbs.MTU4096, pathMTU(netip.MustParseAddr("127.9.1.1")))
	require.Equal(t, verbs.MTU4096, pathMTU(netip.MustParseAddr("::1")))
	require.Equal(t, verbs.MTU256, pathMTU(netip.MustParseAddr("203.0.113.1")), "not an address of this host")
}
