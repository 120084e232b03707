package verbs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRNRDelay compares the delays of RNR NAK timer codes with IBTA vol. 1, table 45.
func TestRNRDelay(t *testing.T) {
	milliseconds := []float64{
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12,
		0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72,
		40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	}
	require.Len(t, milliseconds, 32)
	for code, ms := range milliseconds {
		want := time.Duration(ms*1e3+0.5) * time.Microsecond
		require.Equal(t, want, verbs.RNRDelay(uint8(code)), "code %d", code)
		require.Equal(t, want, verbs.RNRDelay(uint8(code)|0xe0), "only five bits count")
	}
}

func TestAckTimeout(t *testing.T) {
	require.Zero(t, verbs.AckTimeout(0), "code 0 means none")
	require.Zero(t, verbs.AckTimeout(32), "only five bits count")
	require.Equal(t, 8192*time.Nanosecond, verbs.AckTimeout(1))
	require.Equal(t, 67108864*time.Nanosecond, verbs.AckTimeout(14))
	for code := uint8(2); code < 32; code++ {
		require.Equal(t, 2*verbs.AckTimeout(code-1), verbs.AckTimeout(code))
	}
}

// TestTimerCodes checks that a time between the times of two codes gets the code of the
// longer time.
func TestTimerCodes(t *testing.T) {
	for code := uint8(1); code < 32; code++ {
		at := verbs.AckTimeout(code)
		requireCode(t, code, at, verbs.AckTimeoutCode)
		requireCode(t, code, at-1, verbs.AckTimeoutCode)
		requireCode(t, code, verbs.RNRDelay(code), verbs.RNRDelayCode)
		requireCode(t, code, verbs.RNRDelay(code)-1, verbs.RNRDelayCode)
	}
	requireCode(t, 1, 0, verbs.AckTimeoutCode)
	requireCode(t, 1, 0, verbs.RNRDelayCode)
	requireCode(t, 0, verbs.RNRDelay(31)+1, verbs.RNRDelayCode)
	requireCode(t, 0, verbs.RNRDelay(0), verbs.RNRDelayCode)
	_, ok := verbs.AckTimeoutCode(verbs.AckTimeout(31) + 1)
	require.False(t, ok)
	_, ok = verbs.RNRDelayCode(verbs.RNRDelay(0) + 1)
	require.False(t, ok)
}

func requireCode(t *testing.T, want uint8, d time.Duration, codeOf func(time.Duration) (uint8, bool)) {
	t.Helper()
	code, ok := codeOf(d)
	require.True(t, ok, d)
	require.Equal(t, want, code, d)
}

func TestQPStrings(t *testing.T) {
	require.Equal(t, "RC", verbs.QPTypeRC.String())
	require.Equal(t, "UD", verbs.QPTypeUD.String())
	require.Equal(t, "QP type 9", verbs.QPType(9).String())
	requireNames(t, verbs.StateReset, "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR", "QP state 7")
	require.Equal(t, "QP state 255", verbs.QPState(255).String())
}

// TestAttrMaskBits compares the bits of attributes with enum ibv_qp_attr_mask.
func TestAttrMaskBits(t *testing.T) {
	var all verbs.QPAttrMask
	for _, bit := range attributes {
		require.Zero(t, all&bit, "%#x is used twice", uint32(bit))
		all |= bit
	}
	require.Equal(t, verbs.QPAttrMask(0x13bfe8), all)
	require.Equal(t, verbs.QPAttrMask(1), verbs.AttrState)
}
