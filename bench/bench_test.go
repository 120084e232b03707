package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test binary the program under test, for those of its
// processes that have a role, or are told to be it.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" || os.Getenv(asProgram) != "" {
		main()
	}
	// A process under the race detector lingers for a second without this.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// brief is a run in which everything happens, but not for long.
func brief() options { return options{quick: true, duration: 10 * time.Millisecond, rounds: 1} }

// peersHere are those that need nothing but this program and its processors.
func peersHere() []*peer {
	return slices.DeleteFunc(ownPeers(), func(p *peer) bool { return p.name == "rdmacore" || needsTwo(p) })
}

// needsTwo reports whether a peer has nothing to do where there is one processor.
func needsTwo(p *peer) bool {
	client, _ := processors()
	return client < 0 && p.ways[0].mode == "busy"
}

// Every workload of every peer that this program measures itself runs, and the
// rows make sense. The modes differ in ping-pong only.
func TestEveryWorkload(t *testing.T) {
	for _, p := range peersHere() {
		t.Run(p.name, func(t *testing.T) {
			seen := map[Case]bool{}
			for _, c := range p.Cases(brief()) {
				once := c
				once.InFlight = 0
				if seen[once] || c.Mode != p.ways[0].mode && c.Workload != workPingPong {
					continue
				}
				seen[once] = true
				t.Run(c.Path+" "+c.Mode+" "+c.Workload, func(t *testing.T) {
					row, err := p.Run(context.Background(), c)
					require.NoError(t, err)
					requireSane(t, c, row)
				})
			}
			require.NotEmpty(t, seen)
		})
	}
}

func requireSane(t *testing.T, c Case, row Row) {
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
	// One connection has one message on the way, so that the times add up.
	if c.Connections == 1 && c.Workload == workPingPong {
		require.LessOrEqual(t, row.P50/2*row.MsgsPerSec, float64(time.Second))
	}
	if c.Connections >= manyConns {
		require.Positive(t, row.RSSPerConn)
	}
}

// All windows of a stream, on one way of each kind of peer.
func TestWindows(t *testing.T) {
	for _, p := range peersHere() {
		for _, c := range p.Cases(brief()) {
			if c.Workload != workStream || c.Mode != p.ways[0].mode {
				continue
			}
			t.Run(c.String(), func(t *testing.T) {
				row, err := p.Run(context.Background(), c)
				require.NoError(t, err)
				requireSane(t, c, row)
			})
		}
	}
}

// Messages larger than a read of a socket, and than what is copied.
func TestLargeMessages(t *testing.T) {
	o := brief()
	o.sizes = []int{64 << 10}
	o.workloads = []string{workPingPong, workStream, workRead}
	for _, p := range peersHere() {
		for _, c := range p.Cases(o) {
			if c.Mode != p.ways[0].mode || c.InFlight == 1 && c.Workload == workStream {
				continue
			}
			t.Run(c.String(), func(t *testing.T) {
				row, err := p.Run(context.Background(), c)
				require.NoError(t, err)
				requireSane(t, c, row)
			})
		}
	}
}
