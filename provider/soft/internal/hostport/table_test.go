//go:build linux

package hostport

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

func TestScanBound(t *testing.T) {
	table := `Num       RefCount Protocol Flags    Type St Inode Path
00000000b70bae36: 00000003 00000000 00000000 0001 03   558
0000000000000001: 00000002 00000000 00000000 0005 01  1001 @rdmaloop/1/tcp/127.0.0.1/7
0000000000000002: 00000002 00000000 00010000 0005 01  1002 @rdmaloop/1/tcp/*4/7
0000000000000003: 00000002 00000000 00010000 0005 01  1003 @rdmaloop/1/udp/*4/7
0000000000000004: 00000002 00000000 00010000 0005 01  1004 @rdmaloop/1/tcp/*4/8
0000000000000005: 00000003 00000000 00000000 0005 03  1005 @rdmaloop/1/tcp/::1/7
0000000000000006: 00000003 00000000 00000000 0005 03  1006 @rdmaloop/1/tcp/::2/7
0000000000000007: 00000002 00000000 00000000 0005 01  1007 @rdmaloop/1/tcp/a b/7
0000000000000008: 00000002 00000000 00000000 0005 01  1008 /run/@rdmaloop/1/tcp/*6/7
`
	connected := func(name string) (bool, error) { return name == "@rdmaloop/1/tcp/::1/7", nil }
	found, err := thisHost.scanBound(strings.NewReader(table), cm.TCP, 7, connected)
	require.NoError(t, err)
	require.Equal(t, []BindAddr{addrAt("127.0.0.1:7"), addrAt("0.0.0.0:7"), addrAt("[::1]:7")}, found)

	bad := errors.New("bad")
	_, err = thisHost.scanBound(strings.NewReader(table), cm.TCP, 7, func(string) (bool, error) { return false, bad })
	require.ErrorIs(t, err, bad, "a name may be bound")
	_, err = thisHost.scanBound(io.MultiReader(strings.NewReader(table), failing{bad}), cm.TCP, 7, connected)
	require.ErrorIs(t, err, bad)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The marker of a wildcard exists as long as the Reservation is open.
func TestMarker(t *testing.T) {
	r, err := thisHost.Reserve(cm.TCP, netip.MustParseAddrPort("0.0.0.0:0"), false, false, thisHost.EphemeralPorts)
	require.NoError(t, err)
	wildcards := thisHost.NewBindAddr(cm.TCP, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), r.Addr.Port), false).wildcards()
	marked, found, err := findMarker(wildcards)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, r.Addr, marked)
	r.Close()
	_, found, err = findMarker(wildcards)
	require.NoError(t, err)
	require.False(t, found)
}
