//go:build linux && !race

package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// With the race detector a connection takes more memory, so the test runs without it.

const runProgramEnv = "RDMALOOP_TEST_RUN_MEMORY"

// TestMain runs the program instead of the tests if runProgramEnv is set.
func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestMemoryOfConnections checks the memory of a connection, of both ends together. With
// fewer connections, each has a larger part of what all share.
func TestMemoryOfConnections(t *testing.T) {
	connections, later := 10_000, true
	if testing.Short() {
		connections, later = 2000, false
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-connections", strconv.Itoa(connections),
		"-limit", "24000", "-later="+strconv.FormatBool(later))
	cmd.Env = append(os.Environ(), runProgramEnv+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}
