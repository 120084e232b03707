//go:build linux

package connmgr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// If a peer requests more READs and atomics than this side allows, the numbers are
// lowered to the limits of this side.
func TestNegotiationLimits(t *testing.T) {
	var mine negotiation
	mine.setPeer(&QPParams{QPN: 5, PSN: 6, ResponderResources: 200, InitiatorDepth: 200, RNRRetry: 3}, 16, 8)
	require.Equal(t, negotiation{peerQPN: 5, peerPSN: 6, resources: 16, depth: 8, rnrRetry: 3}, mine)
	mine.setPeer(&QPParams{ResponderResources: 2, InitiatorDepth: 1}, 16, 8)
	require.Equal(t, negotiation{resources: 1, depth: 2}, mine)
}

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
