package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestOpcode(t *testing.T) {
	requireNames(t, verbs.OpWrite, "WRITE", "WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "READ",
		"ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV", "opcode 10")
	for op := range verbs.Opcode(255) {
		require.Equal(t, op == verbs.OpCompareSwap || op == verbs.OpFetchAdd, op.Atomic(), "%v", op)
		require.Equal(t, op == verbs.OpLocalInv || op == verbs.OpBindMW, op.Local(), "%v", op)
	}
}

// TestSendFlags compares the options with the bits of enum ibv_send_flags.
func TestSendFlags(t *testing.T) {
	require.Equal(t, []verbs.SendFlags{1, 2, 4, 8}, []verbs.SendFlags{
		verbs.SendFence, verbs.SendSignaled, verbs.SendSolicited, verbs.SendInline,
	})
}
