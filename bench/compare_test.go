package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func compared(t *testing.T, before, after []figure) string {
	var b strings.Builder
	require.NoError(t, printComparison(&b, before, after))
	return b.String()
}

func TestCompare(t *testing.T) {
	low, high := []float64{1, 2, 3, 4, 5}, []float64{10, 11, 12, 13, 14}
	before := []figure{{"time", low, false}, {"rate", low, true}, {"same", low, false}, {"short", high[:3], false}}
	after := []figure{{"time", high, false}, {"rate", high, true}, {"same", low, false}, {"short", low[:3], false}, {"new", low, false}}
	text := compared(t, before, after)
	require.Regexp(t, `time +3\.00 +12\.0 +\+300\.00% +worse +0\.008`, text)
	require.Regexp(t, `rate .* better `, text)
	require.NotContains(t, text, "same")
	require.Contains(t, text, "neither better nor worse beyond noise: 1\n")
	require.Contains(t, text, "too few to compare: 1\n")
}

// TestCompareFiles checks that a run can be compared only with a file of the same kind
// of run.
func TestCompareFiles(t *testing.T) {
	rows := testRows()
	for i := range rows {
		rows[i].Rounds = []float64{1, 2, 3, 4}
	}
	name := filepath.Join(t.TempDir(), "rows.json")
	require.NoError(t, writeJSON(name, nil, rows))
	before, err := readFigures(name, false)
	require.NoError(t, err)
	require.Equal(t, figuresOf(rows), before)
	require.True(t, before[2].moreIsBetter)
	_, err = readFigures(name, true)
	require.ErrorIs(t, err, errOtherRun)

	pairs := []PairRow{{Name: "x", Ratios: []float64{1, 2}, MoreIsBetter: true}}
	require.NoError(t, writeJSON(name, nil, pairs))
	before, err = readFigures(name, true)
	require.NoError(t, err)
	require.Equal(t, figuresOfPairs(pairs), before)
	_, err = readFigures(name, false)
	require.ErrorIs(t, err, errOtherRun)
	_, err = readFigures(name+"x", false)
	require.Error(t, err)
}
