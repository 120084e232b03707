package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestImmDt(t *testing.T) {
	var h wire.ImmDt
	h.Set(0xdeadbeef)
	require.Equal(t, unhex(t, "deadbeef"), h[:])
	require.Equal(t, uint32(0xdeadbeef), h.Value())
	require.Equal(t, uint32(0xdeadbeef), captured(t, vectorWriteImm).decoded(t).ImmDt().Value())
}

func TestIETH(t *testing.T) {
	var h wire.IETH
	h.Set(0xdeadbeef)
	require.Equal(t, unhex(t, "deadbeef"), h[:])
	require.Equal(t, uint32(0xdeadbeef), h.RKey())
}
