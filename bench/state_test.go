package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// between returns a row that was measured between two times of a cache line.
func between(before, after, p50 float64) Row {
	return Row{P50: p50, CacheLineBefore: before, CacheLineAfter: after}
}

func TestState(t *testing.T) {
	for want, r := range map[string][]Row{
		stateNear:    {between(50, 140, 1), between(110, farLine-1, 1)},
		stateFar:     {between(500, 781, 1), between(farLine, farLine, 1)},
		stateMixed:   {between(110, 500, 1), between(500, 110, 1)},
		stateUnknown: {between(0, 0, 1), between(110, 0, 1)},
	} {
		for _, row := range r {
			require.Equal(t, want, row.state(), row)
		}
	}
}

func TestCommonState(t *testing.T) {
	near, far, mixed, unknown := between(110, 110, 1), between(500, 500, 1), between(110, 500, 1), Row{}
	require.Equal(t, stateNear, commonState([]Row{mixed, mixed, far, near}), "near, if as many are far")
	require.Equal(t, stateFar, commonState([]Row{near, far, far}))
	require.Equal(t, stateMixed, commonState([]Row{mixed}))
	require.Equal(t, stateUnknown, commonState([]Row{unknown, unknown}))
}

// statePlan returns a plan of two peers whose rounds met the given states. In state far
// everything takes ten times as long.
func statePlan(ours, theirs []Row) *plan {
	c := Case{Path: "local", Mode: "busy", Workload: workPingPong, Size: smallSize, InFlight: 1, Connections: 1}
	p := &plan{}
	for i, rounds := range [][]Row{ours, theirs} {
		c.Peer = []string{"rdmaloop", baseline}[i]
		k := &task{Case: c}
		for _, r := range rounds {
			r.Case, r.P99, r.P999, r.MsgsPerSec = c, r.P50, r.P50, 1e9/r.P50
			k.rounds = append(k.rounds, r)
		}
		p.tasks = append(p.tasks, k)
	}
	return p
}

// TestRowsOfOneState checks that two peers are compared in rounds that met the same
// state, also if the medians of all their rounds met different states.
func TestRowsOfOneState(t *testing.T) {
	p := statePlan(
		[]Row{between(500, 500, 2000), between(110, 120, 200), between(600, 500, 2010), between(110, 130, 201), between(110, 500, 900), between(120, 110, 199), between(500, 510, 1990)},
		[]Row{between(110, 110, 100), between(120, 110, 101), between(110, 140, 102), between(500, 500, 1000)},
	)
	rows := withRatios(p.rows())
	require.InDelta(t, 200, rows[0].P50, 0)
	require.Equal(t, stateNear, rows[0].State)
	require.Equal(t, 3, rows[0].StateRounds)
	require.Len(t, rows[0].Rounds, 7, "-compare gets all rounds")
	require.InDelta(t, 101, rows[1].P50, 0)
	require.InDelta(t, 200./101, rows[0].RatioToGnet, 1e-9)

	same, others := sameState(rows)
	require.Len(t, same, 2)
	require.Empty(t, others)
	require.Equal(t, "processors near (a cache line and back: 110 to 120 ns), median of 3 of 7 rounds", caption(same))
	require.Empty(t, tooFew(same, others))
}

// TestTooFewRounds checks that a peer that never met the state of the others is not
// compared, and that it is named.
func TestTooFewRounds(t *testing.T) {
	p := statePlan(
		[]Row{between(110, 110, 200), between(110, 120, 201), between(500, 500, 2000)},
		[]Row{between(110, 500, 500), between(500, 500, 1000), between(500, 110, 400)},
	)
	p.tasks[0].rounds = append(p.tasks[0].rounds, p.tasks[0].rounds[:2]...)
	rows := withRatios(p.rows())
	require.Equal(t, stateMixed, rows[1].State)
	require.Equal(t, 3, rows[1].StateRounds)
	require.InDelta(t, 500, rows[1].P50, 0)
	require.Zero(t, rows[0].RatioToGnet)
	require.Zero(t, rows[1].RatioToGnet)

	same, others := sameState(rows)
	require.Len(t, same, 1)
	require.Equal(t, []string{"gnet/local/busy pingpong, 64 B (0)"}, tooFew(same, others))
	same[0].StateRounds = enoughRounds - 1
	require.Len(t, tooFew(same, others), 2)
}

// TestAllMixed checks that rows are shown, and not called comparable, if the processors
// moved in every measurement.
func TestAllMixed(t *testing.T) {
	p := statePlan([]Row{between(110, 500, 200)}, []Row{between(500, 110, 900)})
	rows := withRatios(p.rows())
	require.Zero(t, rows[0].RatioToGnet)
	same, others := sameState(rows)
	require.Len(t, same, 2)
	require.Empty(t, others)
	require.Contains(t, caption(same), "not comparable")
}

// TestPlotOfOneState checks that a plot has only rows of one state and names the state.
func TestPlotOfOneState(t *testing.T) {
	near := []Row{between(110, 110, 200), between(110, 110, 200), between(110, 120, 201)}
	p := statePlan(near, []Row{between(500, 500, 1000), between(110, 500, 1000)})
	text := plotTexts(t, p.rows())["latency-64.svg"]
	require.Contains(t, text, "processors near (a cache line and back: 110 to 110 ns)")
	require.Contains(t, text, "fewer than 3 such rounds: 1 of 2 rows")
	require.Contains(t, text, "rdmaloop/local/busy")
	require.NotContains(t, text, "gnet")
}
