package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestBTH(t *testing.T) {
	h := captured(t, vectorSend).decoded(t).BTH()
	require.Equal(t, wire.SendOnly, h.Opcode())
	require.True(t, h.Solicited())
	require.Equal(t, 2, h.PadCount())
	require.Zero(t, h.Version())
	require.Equal(t, uint16(wire.DefaultPKey), h.PKey())
	require.Equal(t, uint32(0x123), h.DestQP())
	require.True(t, h.AckReq())
	require.Equal(t, psn.Value(0xabcdef), h.PSN())
}

// TestBTHSetters checks that each setter changes all bits of its field and no others.
func TestBTHSetters(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*wire.BTH)
		mask string
		want string
	}{
		{"solicited", func(h *wire.BTH) { h.SetSolicited(true) }, "008000000000000000000000", "008000000000000000000000"},
		{"not solicited", func(h *wire.BTH) { h.SetSolicited(false) }, "008000000000000000000000", "000000000000000000000000"},
		{"P_Key", func(h *wire.BTH) { h.SetPKey(0x1234) }, "0000ffff0000000000000000", "000012340000000000000000"},
		{"destination", func(h *wire.BTH) { h.SetDestQP(0xff123456) }, "0000000000ffffff00000000", "000000000012345600000000"},
		{"AckReq", func(h *wire.BTH) { h.SetAckReq(true) }, "000000000000000080000000", "000000000000000080000000"},
		{"no AckReq", func(h *wire.BTH) { h.SetAckReq(false) }, "000000000000000080000000", "000000000000000000000000"},
		{"PSN", func(h *wire.BTH) { h.SetPSN(0xabcdef) }, "000000000000000000ffffff", "000000000000000000abcdef"},
	} {
		mask, want := unhex(t, c.mask), unhex(t, c.want)
		for _, fill := range []byte{0x00, 0xff} {
			var h wire.BTH
			for i := range h {
				h[i] = fill
			}
			c.set(&h)
			for i := range h {
				require.Equal(t, fill&^mask[i]|want[i], h[i], "%s: byte %d, which was %#x", c.name, i, fill)
			}
		}
	}
}

func TestBTHBits(t *testing.T) {
	var h wire.BTH
	h[1] = 0xff
	require.True(t, h.Solicited())
	require.Equal(t, 3, h.PadCount())
	require.Equal(t, uint8(15), h.Version())
	h[1] = 0x10
	require.False(t, h.Solicited())
	require.Equal(t, 1, h.PadCount())
	require.Zero(t, h.Version())
}

func TestPKeysMatch(t *testing.T) {
	for _, c := range []struct {
		a, b uint16
		want bool
	}{
		{0xffff, 0xffff, true},
		{0xffff, 0x7fff, true},
		{0x7fff, 0xffff, true},
		// Two limited members may not communicate.
		{0x7fff, 0x7fff, false},
		{0xffff, 0xfffe, false},
		{0x8001, 0x0001, true},
		// Partition number 0 is invalid.
		{0x8000, 0x8000, false},
		{0, 0, false},
	} {
		require.Equal(t, c.want, wire.PKeysMatch(c.a, c.b), "%#04x and %#04x", c.a, c.b)
	}
}
