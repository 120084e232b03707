package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/latency"
)

func TestTooFewProcessors(t *testing.T) {
	require.Contains(t, tooFewProcessors(options{}, 5), "to 4 loops or more is not measured: it needs 8 processors, and this program may run on 5")
	require.Empty(t, tooFewProcessors(options{}, 16))
	require.Empty(t, tooFewProcessors(options{workloads: []string{workIdle}}, 1))
}

func TestPlacement(t *testing.T) {
	all := latency.AllowedCPUs()
	clients, servers := placement(len(all) / 2)
	require.Len(t, clients, len(all)/2)
	require.Len(t, servers, len(all)/2)
	clients, servers = placement(len(all))
	require.Empty(t, clients)
	require.Empty(t, servers)
}

// TestLoops checks workLoops with two loops and two clients.
func TestLoops(t *testing.T) {
	c := Case{
		Peer: "rdmaloop", Path: "local", Mode: "event", Workload: workLoops, Size: 64, InFlight: 1,
		Connections: 2, Loops: 2, For: 10 * time.Millisecond,
	}
	row, err := rdmaloopPeer().Run(context.Background(), c)
	require.NoError(t, err)
	requirePlausible(t, c, row)
}

func TestScaling(t *testing.T) {
	rows := []Row{
		testRow("rdmaloop", "local", "busy", workLoops, 64, 300, 3e6),
		testRow("rdmaloop", "local", "busy", workLoops, 64, 300, 9e6),
		testRow("rdmaloop", "local", "busy", workPingPong, 64, 300, 3e6),
	}
	rows[0].Loops, rows[1].Loops = 1, 4
	rows = withRatios(rows)
	require.InDelta(t, 1, rows[0].Scaling, 1e-9)
	require.InDelta(t, 0.75, rows[1].Scaling, 1e-9)
	require.Zero(t, rows[2].Scaling)
	require.Equal(t, "loops, 64 B, of 4", rows[1].title())
}

func TestResultsOfClients(t *testing.T) {
	a, b := &result{P50: 1, P99: 5, Msgs: 10, Elapsed: 1}, &result{P50: 2, P99: 4, Msgs: 20, Elapsed: 2}
	require.Equal(t, &result{P50: 2, P99: 5, Msgs: 30, Elapsed: 2}, a.plus(b))
	require.Equal(t, a, (*result)(nil).plus(a))
	require.Nil(t, (*result)(nil).plus(nil))
}
