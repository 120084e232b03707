//go:build linux

package madcm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A source is full when the total number of its half-open and validated connections
// reaches the limit.
func TestSourceCounts(t *testing.T) {
	s, source, other := newSourceCounts(2), testSource(1), testSource(2)
	s.opened(source)
	s.validated(source)
	require.False(t, s.full(source))
	s.opened(source)
	require.True(t, s.full(source))
	require.False(t, s.full(other))
	require.False(t, s.fullForGood(source), "one of the connections is half-open")
	s.validated(source)
	require.True(t, s.fullForGood(source))
	s.released(source, true)
	s.opened(source)
	s.released(source, false)
	require.Equal(t, sourceConns{open: 1, validated: 1}, s.conns[source])
	s.released(source, true)
	require.Empty(t, s.conns)
}
