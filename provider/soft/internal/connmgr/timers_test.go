//go:build linux

package connmgr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAckTimeoutCode(t *testing.T) {
	for _, c := range []struct{ lifetime, delay, want uint8 }{
		{16, 15, 17}, // values of the kernel's rxe with a packet lifetime of 16
		{18, 15, 19}, // values of the kernel's rxe with a packet lifetime of 18
		{17, 15, 18},
		{17, 16, 18},
		// twice the packet lifetime (code 18) plus the ACK delay (code 17); rounded up
		{17, 17, 19},
		{17, 18, 19},
		{17, 19, 20},
		// twice the packet lifetime (code 18) plus the ACK delay (code 20); rounded down
		{17, 20, 20},
		{0, 0, 2},
		{31, 31, 31},
	} {
		require.Equal(t, c.want, ackTimeoutCode(c.lifetime, c.delay), "%v", c)
	}
	require.EqualValues(t, 20, ackTimeoutCode(18, TargetAckDelay), "4.3 s instead of 2.1 s")
	require.EqualValues(t, 19, ackTimeoutCode(linuxLifetime, TargetAckDelay), "2.1 s instead of 0.54 s")
}
