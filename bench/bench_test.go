package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain runs the program instead of the tests if the environment gives this process
// a role, or has runProgramEnv set.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" || os.Getenv(runProgramEnv) != "" {
		main()
	}
	// Without this, a process with the race detector waits for a second when it exits.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// shortRun returns options for a run in which everything happens, but briefly.
func shortRun() options { return options{quick: true, duration: 10 * time.Millisecond, rounds: 1} }

// peersHere returns the peers that need only this program and its processors.
func peersHere() []*peer {
	return slices.DeleteFunc(ownPeers(), func(p *peer) bool { return p.name == "rdmacore" || needsTwoProcessors(p) })
}

// needsTwoProcessors reports whether a peer cannot run anything on one processor.
func needsTwoProcessors(p *peer) bool {
	client, _ := processors()
	return client < 0 && p.variants[0].mode == "busy"
}

// Every workload of every peer that this program measures itself runs, and the rows are
// plausible. Variants other than the first run ping-pong only.
func TestEveryWorkload(t *testing.T) {
	for _, p := range peersHere() {
		t.Run(p.name, func(t *testing.T) {
			seen := map[Case]bool{}
			for _, c := range p.Cases(shortRun()) {
				once := c
				once.InFlight = 0
				if seen[once] || c.Mode != p.variants[0].mode && c.Workload != workPingPong {
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
	// On one connection one message is in flight, so half of the messages take at least
	// p50 each.
	if c.Connections == 1 && c.Workload == workPingPong {
		require.LessOrEqual(t, row.P50/2*row.MsgsPerSec, float64(time.Second))
	}
	if c.Connections >= manyConns {
		require.Positive(t, row.RSSPerConn)
	}
}

// Streams are measured with each number of messages in flight, on one variant of each
// peer.
func TestStreams(t *testing.T) {
	for _, p := range peersHere() {
		for _, c := range p.Cases(shortRun()) {
			if c.Workload != workStream || c.Mode != p.variants[0].mode {
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

// The messages are larger than a read of a socket, and than the messages that are
// copied.
func TestLargeMessages(t *testing.T) {
	o := shortRun()
	o.sizes = []int{64 << 10}
	o.workloads = []string{workPingPong, workStream, workRead}
	for _, p := range peersHere() {
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
