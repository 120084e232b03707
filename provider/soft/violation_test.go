//go:build linux

package soft

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
	p := newScript(t)
	q, source := p.e.qp, access.RemoteSource(scriptAddr)
	fail := func(a outcome) {
		for range manyViolations {
			q.requestFailed(a)
			q.state = verbs.StateRTS
		}
	}
	fail(outcomeOperationError)
	require.False(t, q.engine.access.Refuses(source))
	fail(outcomeInvalidRequest)
	require.True(t, q.engine.access.Refuses(source))
}

// An invalid value in shared memory ends all connections that use it, and is one
// violation.
func TestInvalidMemoryIsOneViolation(t *testing.T) {
	x, y := newPair(t, openDevice(t, &Config{Vectors: 2}), verbs.ProgressManual)
	source := access.LocalSource(54321, 1)
	p := x.qp.path.(*shmConn).p
	for range manyViolations {
		newNeighbors(t, x, y)
	}
	for _, c := range p.conns.byNum {
		c.source = source
	}
	p.protocolError()
	require.Equal(t, verbs.StateError, x.qp.State())
	require.False(t, x.qp.engine.access.Refuses(source))
}
