package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestDETH(t *testing.T) {
	h := wire.DETH(unhex(t, "ffffffffffffffff"))
	h.Set(wire.GSIQKey, 0xff123456)
	require.Equal(t, unhex(t, "80010000 00 123456"), h[:])
	require.Equal(t, uint32(0x80010000), h.QKey())
	require.Equal(t, uint32(0x123456), h.SrcQP())
}

func TestDETHOfTheVector(t *testing.T) {
	h := captured(t, vectorREQ).decoded(t).DETH()
	require.Equal(t, uint32(wire.GSIQKey), h.QKey())
	require.Equal(t, uint32(wire.GSIQPN), h.SrcQP())
}
