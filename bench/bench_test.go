package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain runs the tests. In the child process of a test it runs the program bench.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" || os.Getenv(runProgramEnv) != "" {
		main()
	}
	// Without this setting, a process with the race detector waits a second before it
	// exits.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// shortRun returns options for a short run of all workloads.
func shortRun() options { return options{quick: true, duration: 10 * time.Millisecond, rounds: 1} }

// peersHere returns the peers that need neither another program nor an RDMA device.
func peersHere() []*peer {
	return slices.DeleteFunc(ownPeers(), func(p *peer) bool { return p.name == "rdmacore" || needsTwoProcessors(p) })
}

// needsTwoProcessors reports whether the peer can not run because there is only one
// processor.
func needsTwoProcessors(p *peer) bool {
	client, _ := processors()
	return client < 0 && p.variants[0].mode == "busy"
}

// TestEveryWorkload checks that every workload gives plausible rows. Only the first
// variant of a peer runs all workloads; with the flag -short, only that of rdmaloop. The
// others run ping-pong, or their first workload if they have no ping-pong.
func TestEveryWorkload(t *testing.T) {
	for _, p := range peersHere() {
		t.Run(p.name, func(t *testing.T) {
			seen := map[Case]bool{}
			for _, c := range p.Cases(shortRun()) {
				once := c
				once.InFlight = 0
				all := c.Mode == p.variants[0].mode && (p.name == "rdmaloop" || !testing.Short())
				if seen[once] || !all && c.Workload != workPingPong && len(seen) > 0 {
					continue
				}
				seen[once] = true
				t.Run(c.Path+" "+c.Mode+" "+c.Workload, func(t *testing.T) {
					row, err := p.Run(context.Background(), c)
					require.NoError(t, err)
					requirePlausible(t, c, row)
				})
			}
			require.NotEmpty(t, seen)
		})
	}
}

func requirePlausible(t *testing.T, c Case, row Row) {
	require.Equal(t, c, row.Case)
	require.Positive(t, row.MsgsPerSec)
	require.InEpsilon(t, row.MsgsPerSec*float64(c.Size), row.BytesPerSec, 1e-9)
	require.Positive(t, row.CPU)
	require.GreaterOrEqual(t, row.Allocs, 0.0)
	require.GreaterOrEqual(t, row.CtxSwitches, 0.0)
	if !c.timed() {
		require.Zero(t, row.P50)
		return
	}
	require.Positive(t, row.P50)
	require.LessOrEqual(t, row.P50, row.P99)
	require.LessOrEqual(t, row.P99, row.P999)
	require.LessOrEqual(t, row.P999, row.Max)
	// At least half of the round trips take p50 or longer, so their mean is at least
	// p50/2.
	if c.Connections == 1 && c.Workload == workPingPong {
		require.LessOrEqual(t, row.P50/2*row.MsgsPerSec, float64(time.Second))
	}
	if c.Connections >= manyConns {
		require.Positive(t, row.RSSPerConn)
	}
}

// TestStreams checks streams with different numbers of messages in flight.
func TestStreams(t *testing.T) {
	for _, p := range peersHere() {
		for _, c := range p.Cases(shortRun()) {
			if c.Workload != workStream || c.Mode != p.variants[0].mode || testing.Short() && c.InFlight != 32 {
				continue
			}
			t.Run(c.String(), func(t *testing.T) {
				row, err := p.Run(context.Background(), c)
				require.NoError(t, err)
				requirePlausible(t, c, row)
			})
		}
	}
}

// TestLargeMessages checks that messages of 64 KiB arrive unchanged.
func TestLargeMessages(t *testing.T) {
	o := shortRun()
	o.sizes = []int{64 << 10}
	o.workloads = []string{workPingPong, workStream, workRead}
	for _, p := range peersHere() {
		if testing.Short() && p.name != "rdmaloop" && p.name != "stream" {
			continue
		}
		for _, c := range p.Cases(o) {
			if c.Mode != p.variants[0].mode || c.InFlight == 1 && c.Workload == workStream {
				continue
			}
			t.Run(c.String(), func(t *testing.T) {
				row, err := p.Run(context.Background(), c)
				require.NoError(t, err)
				requirePlausible(t, c, row)
			})
		}
	}
}
