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
