//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// manyViolations is more than a source may cause at once; see access.ErrorLimit.
const manyViolations = 70

// A request that fails because of a fault of this side, such as missing memory, is no
// violation by the peer.
func TestOwnFaultsAreNoViolations(t *testing.T) {
	d := newFakeHost(t, 1)
	e, source := newFakeEnd(t, d, nil), access.LocalSource(54321, 1)
	e.connect().source = source
	q := e.qp
	fail := func(a Outcome) {
		for range manyViolations {
			q.RequestFailed(a)
			q.state = verbs.StateRTS
		}
	}
	fail(OutcomeOperationError)
	require.False(t, d.Access.Refuses(source))
	fail(OutcomeInvalidRequest)
	require.True(t, d.Access.Refuses(source))
}
