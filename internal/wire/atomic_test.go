package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestAtomicETH(t *testing.T) {
	var h wire.AtomicETH
	h.Set(0x0123456789abcdef, 0xdeadbeef, 0x1111111122222222, 0x3333333344444444)
	require.Equal(t, unhex(t, "0123456789abcdef deadbeef 1111111122222222 3333333344444444"), h[:])
	require.Equal(t, uint64(0x0123456789abcdef), h.Addr())
	require.Equal(t, uint32(0xdeadbeef), h.RKey())
	require.Equal(t, uint64(0x3333333344444444), h.Compare())
}

func TestAtomicAckETH(t *testing.T) {
	var h wire.AtomicAckETH
	h.Set(0x0123456789abcdef)
	require.Equal(t, unhex(t, "0123456789abcdef"), h[:])
	require.Equal(t, uint64(0x0123456789abcdef), h.Original())
}
