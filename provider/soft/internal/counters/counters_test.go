package counters

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounterNames(t *testing.T) {
	require.True(t, slices.IsSorted(names[:]))
	require.Len(t, slices.Compact(slices.Clone(names[:])), int(Num))
	require.NotContains(t, names, "")
}
