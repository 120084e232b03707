package wire_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestGRH(t *testing.T) {
	for _, c := range []struct{ name, src, dst, want string }{
		// The header of a REQ from another implementation.
		{"IPv4", "10.77.0.1", "10.77.0.2", "0000000000000000000000000000000000000000 45000134000040004011251d0a4d00010a4d0002"},
		{"mapped", "::ffff:10.77.0.1", "::ffff:10.77.0.2", "0000000000000000000000000000000000000000 45000134000040004011251d0a4d00010a4d0002"},
		{"IPv6", "fd00::1", "fd00::2", "60000000 0120 11 40 fd000000000000000000000000000001 fd000000000000000000000000000002"},
	} {
		h := wire.GRH{0: 0xee, 20: 0xee}
		h.Set(netip.MustParseAddr(c.src), netip.MustParseAddr(c.dst), wire.UDSendOnly.Size(wire.MADSize), 0, 64)
		require.Equal(t, unhex(t, c.want), h[:], c.name)
	}
}

// TestGRHChecksum checks the Internet checksum: the one's complement sum of the whole
// header must be 0xffff (RFC 1071).
func TestGRHChecksum(t *testing.T) {
	for packet := 20; packet <= wire.MaxPacket; packet += 4 {
		var h wire.GRH
		h.Set(netip.MustParseAddr("255.255.255.254"), netip.MustParseAddr("192.0.2.7"), packet, 0xba, 255)
		sum := uint32(0)
		for i := 20; i < 40; i += 2 {
			sum += uint32(h[i])<<8 | uint32(h[i+1])
		}
		require.Equal(t, uint32(0xffff), sum>>16+sum&0xffff, "packet of %d bytes", packet)
	}
}

func TestGRHClassAndHops(t *testing.T) {
	var h wire.GRH
	h.Set(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), 20, 0xba, 7)
	require.Equal(t, []byte{0xba, 7}, []byte{h[21], h[28]})
	h.Set(netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), 20, 0xba, 7)
	require.Equal(t, []byte{0x6b, 0xa0, 7}, []byte{h[0], h[1], h[7]})
}
