package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// testRow returns a row with plausible figures.
func testRow(peer, path, mode, workload string, size int, p50, rate float64) Row {
	return Row{
		Case: Case{Peer: peer, Path: path, Mode: mode, Workload: workload, Size: size, InFlight: 1, Connections: 1},
		P50:  p50, P99: 2 * p50, P999: 3 * p50, Max: 400 * p50,
		MsgsPerSec: rate, BytesPerSec: rate * float64(size),
	}
}

func TestRatios(t *testing.T) {
	rows := withRatios([]Row{
		testRow("rdmaloop", "local", "busy", workPingPong, 64, 300, 3e6),
		testRow("rdmaloop", "wire", "busy", workPingPong, 64, 9000, 1e5),
		testRow("rdmacore", "device", "busy", workPingPong, 64, 6000, 1e5),
		testRow("gnet", "tcp", "event", workPingPong, 64, 30_000, 3e4),
		testRow("cacheline", "memory", "busy", workPingPong, 64, 100, 9e6),
		testRow("rawudp", "udp", "busy", workPingPong, 64, 6000, 1e5),
		testRow("rdmaloop", "local", "busy", workPingPong, 8, 280, 3e6),
	})
	var gnet, floor []float64
	for _, r := range rows {
		gnet = append(gnet, r.RatioToGnet)
		floor = append(floor, r.RatioToFloor)
	}
	require.InDeltaSlice(t, []float64{0.01, 0.3, 0.2, 1, 100. / 30_000, 0.2, 0}, gnet, 1e-9)
	require.InDeltaSlice(t, []float64{3, 1.5, 0, 5, 1, 1, 0}, floor, 1e-9, "size 8 has nothing to compare with")
}

// TestRatiosOfRates checks that rates are compared only if neither row has a p50.
func TestRatiosOfRates(t *testing.T) {
	rows := withRatios([]Row{
		testRow("rdmaloop", "local", "busy", workStream, 64, 0, 9e6),
		testRow("gnet", "tcp", "event", workStream, 64, 0, 3e6),
		testRow("stdlib", "tcp", "event", workStream, 64, 100, 3e6),
	})
	require.InDelta(t, 3, rows[0].RatioToGnet, 1e-9)
	require.Zero(t, rows[2].RatioToGnet)
	require.Zero(t, rows[0].RatioToFloor)
}

// TestFloorOfCopies checks that the floor of streams and large messages is memcpy.
func TestFloorOfCopies(t *testing.T) {
	rows := withRatios([]Row{
		testRow("rdmaloop", "local", "busy", workStream, 64, 0, 9e6),
		testRow("memcpy", "memory", "busy", workStream, 64, 0, 18e6),
		testRow("ucx", "posix", "busy", workPingPong, 4096, 3000, 1e5),
		testRow("memcpy", "memory", "busy", workPingPong, 4096, 1000, 9e5),
	})
	require.InDelta(t, 0.5, rows[0].RatioToFloor, 1e-9)
	require.InDelta(t, 3, rows[2].RatioToFloor, 1e-9)
}
