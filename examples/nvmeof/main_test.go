package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const runProgramEnv = "RDMALOOP_TEST_RUN_NVMEOF"

// TestMain runs the program instead of the tests if runProgramEnv is set. The tests set
// it for the processes that they start.
func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program returns this program as a process that is not started yet.
func program(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	// With the race detector, the process would wait a second before it exits.
	cmd.Env = append(os.Environ(), runProgramEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// The demonstration prints a line for each workload on each path.
func TestDemo(t *testing.T) {
	cmd := program(t, "-duration", "5ms")
	// The target inherits the variable that makes it run the program.
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 1+2*6, "%s", out)
	require.Regexp(t, `^path +operation`, lines[0])
	require.Regexp(t, `^local +write +4K +1 `, lines[1])
	require.Regexp(t, `^wire +read +256K +8 `, lines[12])
}

func TestParseErrors(t *testing.T) {
	for _, args := range [][]string{
		{"-listen", ":4420"}, {"-file", "x"}, {"-listen", ":4420", "-file", "x", "-size", "1KM"},
		{"-listen", ":4420", "-file", "x", "-size", "G"}, {"-loops", "0"}, {"-workers", "0"},
		{"-duration", "0s"}, {"surplus"}, {"-size", "-1"}, {"-size", "9999999T"},
	} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, "%v", args)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"512": 512, "64K": 64 << 10, "3M": 3 << 20, "2G": 2 << 30, "1T": 1 << 40} {
		got, err := parseSize(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
