package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoals checks that the goals have different names and can be measured.
func TestGoals(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range goals() {
		require.False(t, seen[g.name()], g.name())
		seen[g.name()] = true
		require.Positive(t, g.limit, g.name())
		for _, c := range []Case{g.ours, g.theirs} {
			if c.Peer == "" || c.Peer == "ucx" {
				continue
			}
			p, err := peerNamed(c.Peer)
			require.NoError(t, err)
			if !needsTwoProcessors(p) {
				require.Contains(t, p.Cases(options{sizes: []int{c.Size}}), c)
			}
		}
	}
	require.Equal(t, []string{"gnet", "gnetrdma", "rawudp", "rdmaloop", "stdlib", "stream", "ucx"}, goalPeers(goals()))
}

func TestGoalNames(t *testing.T) {
	small := Case{Peer: "a", Path: "b", Mode: "c", Workload: workPingPong, Size: 64, InFlight: 1, Connections: 1}
	other := small
	other.Peer = "d"
	require.Equal(t, "a/b/c pingpong, 64 B, p50", goal{ours: small, metric: metricP50()}.name())
	require.Equal(t, "a/b/c pingpong, 64 B, p50 × d/b/c", goal{ours: small, theirs: other, metric: metricP50()}.name())
	other.Workload = workWrite
	require.Equal(t, "a/b/c pingpong, 64 B, p50 × d/b/c write, 64 B", goal{ours: small, theirs: other, metric: metricP50()}.name())
}

func TestGoalRatio(t *testing.T) {
	g := goal{theirs: Case{Peer: "ucx"}, metric: metricP50(), limit: 1.2}
	ratio, ok := g.ratio(Row{P50: 300}, Row{P50: 200})
	require.True(t, ok)
	require.InDelta(t, 1.5, ratio, 1e-9)
	require.False(t, g.reached(ratio))
	require.True(t, g.reached(1.2))
	_, ok = g.ratio(Row{P50: 300}, Row{})
	require.False(t, ok, "the figure of the peer is missing")

	alone := goal{metric: metricMemory(), limit: 12}
	ratio, ok = alone.ratio(Row{RSSPerConn: 9000}, Row{})
	require.True(t, ok)
	require.InDelta(t, 9, ratio, 1e-9)
	more := goal{metric: metricRate(), limit: 1}
	require.True(t, more.reached(1.1))
	require.False(t, more.reached(0.9))
}
