package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadmeTable(t *testing.T) {
	near := func(r Row, rounds int) Row {
		r.State, r.StateRounds, r.Rounds = stateNear, rounds, make([]float64, 25)
		r.CacheLineBefore, r.CacheLineAfter = 110, 140
		return r
	}
	stream := testRow("rdmaloop", "local", "busy", workStream, 64, 0, 6.5e6)
	stream.InFlight = readmeInFlight
	other := testRow("rdmaloop", "local", "busy", workPingPong, 4096, 9000, 1e5)
	ours := testRow("rdmaloop", "local", "busy", workPingPong, 64, 640, 1e6)
	ours.CPU = 1500
	gnet := testRow("gnet", "tcp", "event", workPingPong, 64, 60_000, 1e4)
	ucx := testRow("ucx", "posix", "busy", workPingPong, 64, 310, 3e6)
	ucx.State = stateMixed
	rows := []Row{near(ours, 9), near(stream, 2), near(gnet, 12), near(other, 1), ucx}
	var b strings.Builder
	require.NoError(t, printReadme(&b, withRatios(rows)))
	require.Regexp(t, `\| rdmaloop, shared memory, busy +\| 0\.64 µs \| 1\.3 µs +\| 1\.5 µs +\| 0\.011 +\| +\| 6\.50M +\|\n`, b.String())
	require.Regexp(t, `\| gnet, TCP +\| 60 µs +\| 120 µs +\| +\| 1\.00 `, b.String())
	require.Regexp(t, `\| UCX, shared memory, polling( +\| +){6}\|\n`, b.String())
	require.Contains(t, b.String(), "\nprocessors near (a cache line and back: 110 to 140 ns), median of 2 to 12 of 25 rounds\n")
	require.Contains(t, b.String(), "\nfewer than 3 such rounds: rdmaloop/local/busy stream, 64 B, 256 in flight (2); ucx/posix/busy pingpong, 64 B (0)\n")
}

// TestReadmeOptions checks that a run with -readme measures each line of the table.
func TestReadmeOptions(t *testing.T) {
	o := parsed(t, "-readme")
	require.Equal(t, readmeRounds, o.rounds)
	require.Equal(t, readmeDuration, o.duration)
	for _, s := range readmeSeries() {
		name := strings.Split(s[0], "/")
		require.True(t, o.wantsCase(Case{Peer: name[0], Path: name[1], Mode: name[2], Workload: workPingPong}), s[0])
	}
	o = parsed(t, "-readme", "-rounds", "2", "-duration", "1s", "-peers", "gnet", "-sizes", "8")
	require.Equal(t, 2, o.rounds)
	require.Equal(t, time.Second, o.duration)
	require.Equal(t, []string{"gnet"}, o.peers)
	require.Equal(t, []int{8}, o.sizes)
	_, err := parse([]string{"-readme", "-pairs"}, nil)
	require.Error(t, err)
}
