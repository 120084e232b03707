package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestRETH(t *testing.T) {
	var h wire.RETH
	h.Set(0x0123456789abcdef, 0xdeadbeef, 0x80000000)
	require.Equal(t, unhex(t, "0123456789abcdef deadbeef 80000000"), h[:])
	require.Equal(t, uint64(0x0123456789abcdef), h.Addr())
	require.Equal(t, uint32(0xdeadbeef), h.RKey())
	require.Equal(t, uint32(0x80000000), h.Length())
}

func TestRETHOfTheVectors(t *testing.T) {
	h := captured(t, vectorReadRequest).decoded(t).RETH()
	require.Equal(t, uint64(0x7f0011220000), h.Addr())
	require.Equal(t, uint32(0x1234), h.RKey())
	require.Equal(t, uint32(3000), h.Length())

	h = captured(t, vectorWriteImm).decoded(t).RETH()
	require.Equal(t, uint64(0x7f0011223344), h.Addr())
	require.Equal(t, uint32(5), h.Length())
}
