package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testRows() []Row {
	return []Row{
		testRow("rdmaloop", "local", "busy", workPingPong, 64, 250, 4e6),
		testRow("gnet", "tcp", "event", workPingPong, 64, 25_000, 4e4),
		testRow("rdmaloop", "local", "busy", workStream, 64, 0, 9e6),
	}
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	o := options{json: filepath.Join(dir, "rows.json"), plots: filepath.Join(dir, "plots")}
	var stdout strings.Builder
	require.NoError(t, output(testRows(), o, &stdout))
	require.True(t, strings.HasPrefix(stdout.String(), describeMachine()+"\n\npingpong, 64 B"))
	text, err := os.ReadFile(o.json)
	require.NoError(t, err)
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Len(t, rows, 3)
	require.Equal(t, map[string]any{
		"peer": "rdmaloop", "path": "local", "mode": "busy", "workload": "pingpong",
		"size": 64., "inflight": 1., "connections": 1.,
		"p50_ns": 250., "p99_ns": 500., "p999_ns": 750., "max_ns": 100_000.,
		"msgs_per_sec": 4e6, "bytes_per_sec": 256e6, "ratio_to_gnet": 0.01,
	}, rows[0])
	require.FileExists(t, filepath.Join(o.plots, "latency-64.svg"))
}

// TestOutputJSONOnly checks that "-json -" prints nothing but JSON, even without rows.
func TestOutputJSONOnly(t *testing.T) {
	var stdout strings.Builder
	require.NoError(t, output(nil, options{json: "-"}, &stdout))
	require.Equal(t, "[]\n", stdout.String())
}

func TestOutputFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(missing, nil, 0o600))
	below := filepath.Join(missing, "rows.json")
	var stdout strings.Builder
	require.Error(t, output(testRows(), options{json: below}, &stdout))
	require.Error(t, output(testRows(), options{plots: below}, &stdout))
	require.ErrorIs(t, output(testRows(), options{json: "-"}, failingWriter{}), errFull)
}
