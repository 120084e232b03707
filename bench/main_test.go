package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hangLimit is the time after which a test fails instead of waiting. Arbitrary.
const hangLimit = 2 * time.Minute

const runProgramEnv = "RDMALOOP_TEST_RUN_BENCH"

func TestRun(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-quick", "-duration", "5ms", "-peers", "stdlib", "-workloads", "pingpong", "-json", "-"}
	require.Equal(t, exitOK, run(args, &stdout, &stderr), "%s", &stderr)
	var rows []Row
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rows), "%s", &stdout)
	require.Len(t, rows, 1)
	require.Equal(t, "stdlib", rows[0].Peer)
	require.Positive(t, rows[0].P50)
}

func TestRunRejects(t *testing.T) {
	for args, want := range map[string]string{
		"-sizes 1":                                "sizes are numbers from 8",
		"-peers nobody":                           "nothing to measure",
		"-peers cacheline -workloads connect":     "nothing to measure",
		"-peers rdmacore/nowhere -workloads idle": "nothing to measure",
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitFailed, run(strings.Fields(args), &stdout, &stderr), args)
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String())
	}
	require.Equal(t, exitOK, run([]string{"-h"}, &bytes.Buffer{}, &bytes.Buffer{}))
}

// TestCtrlC checks that Ctrl-C ends a run, which still prints its results.
func TestCtrlC(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-peers", "stdlib", "-workloads", "pingpong,stream", "-duration", "5ms",
		"-rounds", "1000000", "-json", "-")
	cmd.Env = append(os.Environ(), runProgramEnv+"=1")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	hung := time.AfterFunc(hangLimit, func() { cmd.Process.Kill() })
	defer hung.Stop()

	lines := bufio.NewScanner(stderr)
	// Each round prints a line for each of the two workloads. At the third line, the
	// first round is complete.
	for range 3 {
		require.True(t, lines.Scan())
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	var rows []Row
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rows), "%s", &stdout)
	require.GreaterOrEqual(t, len(rows), 2)
	for _, row := range rows {
		require.Positive(t, row.MsgsPerSec)
	}
}
