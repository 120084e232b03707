package counters

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestCounters checks that every counter has a name and a description, in the order of the
// names.
func TestCounters(t *testing.T) {
	byName := func(a, b verbs.Counter) int { return strings.Compare(a.Name, b.Name) }
	require.True(t, slices.IsSortedFunc(all[:], byName))
	for _, c := range all {
		require.NotEmpty(t, c.Name)
		require.NotEmpty(t, c.Help, c.Name)
		require.Equal(t, c.Gauge, strings.HasSuffix(c.Name, "_bytes"), c.Name)
		require.Equal(t, c.Gauge, c.Unit == "bytes", c.Name)
	}
	require.Len(t, slices.CompactFunc(slices.Clone(all[:]), func(a, b verbs.Counter) bool { return a.Name == b.Name }), int(Num))
}

// TestSum checks that the sum of a gauge is right if one set adds and another one subtracts.
func TestSum(t *testing.T) {
	var a, b Set
	a.Add(SegmentBytes, 10)
	b.Sub(SegmentBytes, 4)
	a.Inc(SentPkts)
	list := Sum([]*Set{&a, &b})
	require.EqualValues(t, 6, list[SegmentBytes].Value)
	require.EqualValues(t, 1, list[SentPkts].Value)
	require.EqualValues(t, 0, Sum(nil)[SentPkts].Value)
}
