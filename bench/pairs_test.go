package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testGoals returns two goals that compare the same cases, and one goal without a peer.
func testGoals() []goal {
	ours := Case{Peer: "a", Workload: workPingPong, Size: 64, InFlight: 1, Connections: 1}
	theirs := ours
	theirs.Peer = "b"
	return []goal{
		{ours, theirs, metricP50(), 1.5},
		{ours, theirs, metricRate(), 1},
		{ours, Case{}, metricTail(), 2},
	}
}

func TestPairings(t *testing.T) {
	a, b := &fakeRunner{"a", ok}, &fakeRunner{"b", ok}
	both := map[string]runner{"a": a, "b": b}
	pairs := pairingsOf(testGoals(), options{duration: 1}, both)
	require.Len(t, pairs, 1)
	require.Len(t, pairs[0].goals, 3)
	require.EqualValues(t, 1, pairs[0].theirs.For)
	require.Empty(t, pairingsOf(testGoals(), options{sizes: []int{8}}, both))
	require.Empty(t, pairingsOf(testGoals(), options{workloads: []string{workIdle}}, both))
	alone := pairingsOf(testGoals(), options{}, map[string]runner{"a": a})
	require.Len(t, alone, 1, "only the goal without a peer can be measured")
	require.Len(t, alone[0].goals, 1)
}

// TestPairsAlternate checks that the order of the two cases changes from round to round.
func TestPairsAlternate(t *testing.T) {
	var order strings.Builder
	run := func(p50 float64) func(Case) (Row, error) {
		return func(c Case) (Row, error) {
			order.WriteString(c.Peer)
			return Row{Case: c, P50: p50, P999: 3 * p50, MsgsPerSec: 1e9 / p50}, nil
		}
	}
	here := map[string]runner{"a": &fakeRunner{"a", run(300)}, "b": &fakeRunner{"b", run(200)}}
	pairs := pairingsOf(testGoals(), options{}, here)
	require.Zero(t, measurePairs(context.Background(), pairs, options{rounds: 9}, here, io.Discard))
	require.Equal(t, "ab"+strings.Repeat("baab", 4), order.String())
	rows := pairRows(pairs)
	require.Len(t, rows, 3)
	require.InDelta(t, 1.5, rows[0].Median, 1e-9)
	require.Equal(t, "met", rows[0].Verdict)
	require.Equal(t, "missed", rows[1].Verdict)
	require.Equal(t, "missed", rows[2].Verdict)
	require.GreaterOrEqual(t, rows[0].Confidence, confidence)
}

func TestPairFails(t *testing.T) {
	here := map[string]runner{"a": &fakeRunner{"a", ok}, "b": &fakeRunner{"b", func(Case) (Row, error) { return Row{}, errors.New("why") }}}
	pairs := pairingsOf(testGoals(), options{}, here)
	require.Equal(t, 2, measurePairs(context.Background(), pairs, options{rounds: 2}, here, io.Discard))
	require.Empty(t, pairRows(pairs))
}

// TestPairVerdicts checks the verdicts of goals, with enough rounds and with too few.
func TestPairVerdicts(t *testing.T) {
	g := testGoals()[0]
	for verdict, ratios := range map[string][]float64{
		"met":       {1, 1, 1, 1, 1, 1, 1, 1, 9},
		"missed":    {1, 2, 2, 2, 2, 2, 2, 2, 2},
		"undecided": {1, 1, 1, 1, 1, 2, 2, 2, 2},
	} {
		row := (&goalResult{goal: g, ratios: ratios}).row()
		require.Equal(t, verdict, row.Verdict)
		require.LessOrEqual(t, row.Lo, row.Median)
		require.LessOrEqual(t, row.Median, row.Hi)
	}
	few := (&goalResult{goal: g, ratios: []float64{1, 1, 1}}).row()
	require.Equal(t, "undecided", few.Verdict)
	require.Zero(t, few.Confidence)
	var b strings.Builder
	require.NoError(t, printPairs(&b, []PairRow{few}))
	require.Contains(t, b.String(), "too few rounds")
}

func TestPairsOfNothing(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printPairs(&b, nil))
	require.Equal(t, "nothing was measured\n", b.String())
	require.NoError(t, outputPairs(nil, options{json: "-"}, &b))
}

// TestCacheLineTime checks that the time is measured if there are two processors.
func TestCacheLineTime(t *testing.T) {
	client, _ := processors()
	require.Equal(t, client >= 0, cacheLineTime() > 0)
}
