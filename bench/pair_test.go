package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFailedProcess checks that the error contains what the failed process has printed.
func TestFailedProcess(t *testing.T) {
	_, err := measurePair(context.Background(), spec{Case: Case{Peer: "nobody"}})
	require.ErrorContains(t, err, `no peer "nobody"`)
}

func TestInterruptedMeasurement(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := measurePair(ctx, spec{Case: Case{Peer: "stdlib", Workload: workPingPong, Size: 64, InFlight: 1, Connections: 1}})
	require.Error(t, err)
}

// TestUnreachableServer checks that a client reports a server that it can not reach.
func TestUnreachableServer(t *testing.T) {
	for _, peer := range []string{"rdmaloop", "gnet", "stdlib"} {
		t.Run(peer, func(t *testing.T) {
			var s bytes.Buffer
			s.WriteString(`{"peer":"` + peer + `","path":"local","mode":"event","workload":"pingpong",` +
				`"size":64,"inflight":1,"connections":1,"CPU":-1,"Server":"127.0.0.1:1"}{}`)
			require.Error(t, runChild(roleClient, &s, &bytes.Buffer{}))
		})
	}
}

// TestTwoRunsAtOnce checks that two runs do not use the same UDP port of 127.0.0.1, from
// which the client of gnetrdma dials.
func TestTwoRunsAtOnce(t *testing.T) {
	c := Case{Peer: "gnetrdma", Path: pathWire, Mode: "event", Workload: workPingPong, Size: 64, InFlight: 1, Connections: 1}
	failed := make(chan error)
	const runs = 2
	for range runs {
		go func() {
			_, err := measurePair(context.Background(), spec{Case: c, Measure: 50 * time.Millisecond})
			failed <- err
		}()
	}
	for range runs {
		require.NoError(t, <-failed)
	}
}

func TestBadSpec(t *testing.T) {
	require.ErrorContains(t, runChild(roleServer, bytes.NewBufferString("what"), &bytes.Buffer{}), "spec")
}

func TestRowOf(t *testing.T) {
	c := Case{Peer: "gnet", Workload: workConnsIdle, Size: 100, InFlight: 1, Connections: 200}
	snapshots := [3]snapshot{
		{usage: usage{CPU: 1, RSS: 1000}},
		{usage: usage{CPU: 10 * time.Second, Switches: 5, Allocs: 7, RSS: 5000}},
		{
			usage:  usage{CPU: 14 * time.Second, Switches: 9, Allocs: 9, RSS: 6000},
			result: &result{P50: 1, P99: 2, P999: 3, Max: 4, Msgs: 2000, Elapsed: 2 * time.Second},
		},
	}
	require.Equal(t, Row{
		Case: c, P50: 1, P99: 2, P999: 3, Max: 4,
		MsgsPerSec: 1000, BytesPerSec: 100_000,
		CPU: 2e6, Allocs: 0.001, CtxSwitches: 0.002, RSSPerConn: 20,
	}, rowOf(c, &snapshots))

	snapshots[2].result = nil
	require.Equal(t, Row{Case: c}, rowOf(c, &snapshots))
}
