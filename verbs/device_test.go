package verbs_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestMTUBytes(t *testing.T) {
	for code, bytes := range []int{0, 256, 512, 1024, 2048, 4096, 0, 0} {
		require.Equal(t, bytes, verbs.MTU(code).Bytes(), "code %d", code)
	}
	require.Zero(t, verbs.MTU(255).Bytes())
}

func TestGID(t *testing.T) {
	for _, c := range []struct{ addr, text, back string }{
		{"192.0.2.1", "0000:0000:0000:0000:0000:ffff:c000:0201", "192.0.2.1"},
		{"2001:db8::fe", "2001:0db8:0000:0000:0000:0000:0000:00fe", "2001:db8::fe"},
		{"fe80::1%eth0", "fe80:0000:0000:0000:0000:0000:0000:0001", "fe80::1"},
		{"::ffff:10.0.0.7", "0000:0000:0000:0000:0000:ffff:0a00:0007", "10.0.0.7"},
		{"::", "0000:0000:0000:0000:0000:0000:0000:0000", "::"},
	} {
		gid := verbs.GIDFromAddr(netip.MustParseAddr(c.addr))
		require.Equal(t, c.text, gid.String())
		require.Equal(t, c.back, gid.Addr().String())
	}
}

// FuzzGIDString checks that netip.ParseAddr can parse the text of every GID.
func FuzzGIDString(f *testing.F) {
	f.Add([]byte("0123456789abcdef"))
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		var gid verbs.GID
		copy(gid[:], b)
		addr, err := netip.ParseAddr(gid.String())
		require.NoError(t, err)
		require.Equal(t, [16]byte(gid), addr.As16())
	})
}

func TestDeviceStrings(t *testing.T) {
	requireNames(t, verbs.PortNop, "nop", "down", "init", "armed", "active", "port state 5")
	for event, name := range map[verbs.AsyncEventType]string{
		0:  "CQ error",
		1:  "QP fatal",
		2:  "QP request error",
		3:  "QP access error",
		4:  "communication established",
		5:  "send queue drained",
		6:  "asynchronous event 6",
		8:  "device fatal",
		9:  "port active",
		10: "port error",
		14: "SRQ error",
		15: "SRQ limit reached",
		16: "last WQE reached",
		99: "asynchronous event 99",
	} {
		require.Equal(t, name, event.String())
	}
}
