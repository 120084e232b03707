package wire_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestGID(t *testing.T) {
	for _, c := range []struct{ addr, gid, back string }{
		{"10.77.0.1", "00000000000000000000ffff0a4d0001", "10.77.0.1"},
		{"::ffff:10.77.0.1", "00000000000000000000ffff0a4d0001", "10.77.0.1"},
		{"fe80::1%eth0", "fe800000000000000000000000000001", "fe80::1"},
	} {
		gid := wire.NewGID(netip.MustParseAddr(c.addr))
		require.Equal(t, unhex(t, c.gid), gid[:])
		require.Equal(t, c.back, gid.Addr().String())
	}
}

func TestServiceID(t *testing.T) {
	require.Equal(t, wire.ServiceID(0x0000000001061d2f), wire.NewServiceID(0x0106, 7471))
	for _, space := range []uint16{0x0106, 0x0111, 0x013f} {
		for _, port := range []uint16{0, 1, 7174, 65535} {
			gotSpace, gotPort, ok := wire.NewServiceID(space, port).Port()
			require.True(t, ok)
			require.Equal(t, space, gotSpace)
			require.Equal(t, port, gotPort)
		}
	}
}

func TestForeignServiceID(t *testing.T) {
	for _, id := range []wire.ServiceID{0, 7471, 0x0000000002061d2f, 0x0001000001061d2f, 0x1000000001061d2f, 1<<64 - 1} {
		_, _, ok := id.Port()
		require.False(t, ok, "%#x", uint64(id))
	}
}
