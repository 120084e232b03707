package wire_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestCMAHeader(t *testing.T) {
	for _, c := range []struct{ src, dst, want string }{
		{"10.77.0.1", "10.77.0.2", "00 40 9c40 0000000000000000000000000a4d0001 0000000000000000000000000a4d0002"},
		{"fd00::1", "fd00::2", "00 60 9c40 fd000000000000000000000000000001 fd000000000000000000000000000002"},
	} {
		h := wire.CMAHeader{SrcPort: 40000, Src: netip.MustParseAddr(c.src), Dst: netip.MustParseAddr(c.dst)}
		private := bytes.Repeat([]byte{0xee}, 92)
		rest := h.Encode(private)
		require.Equal(t, unhex(t, c.want), private[:wire.CMAHeaderSize])
		require.Equal(t, private[wire.CMAHeaderSize:], rest)
		require.Equal(t, bytes.Repeat([]byte{0xee}, 56), rest, "Encode must not change the user's part")

		var back wire.CMAHeader
		rest, err := back.Decode(private)
		require.NoError(t, err)
		require.Equal(t, h, back)
		require.Len(t, rest, 56)
	}
}

func TestInvalidCMAHeader(t *testing.T) {
	for name, head := range map[string][]byte{
		"version 1.0":  {0x10, 0x40},
		"version 0.1":  {0x01, 0x40},
		"IP version 0": {0x00, 0x00},
		"IP version 5": {0x00, 0x54},
	} {
		var h wire.CMAHeader
		_, err := h.Decode(append(head, make([]byte, 90)...))
		require.ErrorIs(t, err, wire.ErrCMAHeader, name)
	}
}
