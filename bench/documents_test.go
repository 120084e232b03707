package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoalTable checks that README.md has each goal with its limit, and that a goal is
// undecided exactly if the limit lies in the interval.
func TestGoalTable(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^\| (.+?) +\| [\d.]+ +\| ([\d.]+) to ([\d.]+) +\| [<>]= ([\d.]+) +\| (\w+) +\|`)
	found := map[string][]string{}
	for _, cells := range line.FindAllStringSubmatch(string(text), -1) {
		found[cells[1]] = cells[2:]
	}
	require.Len(t, found, len(goals()))
	for _, g := range goals() {
		cells := found[g.name()]
		require.NotNil(t, cells, g.name())
		var n [3]float64 // the interval and the limit
		for i := range n {
			n[i], err = strconv.ParseFloat(cells[i], 64)
			require.NoError(t, err)
		}
		require.InDelta(t, g.limit, n[2], 1e-9, g.name())
		require.Equal(t, g.verdict(n[0], n[1]), cells[3], g.name())
	}
}
