//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An invalid value in shared memory ends all connections that use it, and is one
// violation.
func TestInvalidMemoryIsOneViolation(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	x, y := qptest.NewPair(t, d, verbs.ProgressManual)
	source := access.LocalSource(54321, 1)
	p := connOf(x).p
	const violations = 70 // more than a source may cause at once; see access.ErrorLimit
	for range violations {
		newNeighbors(t, x, y)
	}
	for _, c := range p.conns.byNum {
		c.source = source
	}
	p.protocolError()
	require.Equal(t, verbs.StateError, x.QP.State())
	require.False(t, d.Access.Refuses(source))
}
