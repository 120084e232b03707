package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hangLimit is how long the program may run. If it runs longer, it hangs.
const hangLimit = 2 * time.Minute

// runProgramEnv makes the test binary the program.
const runProgramEnv = "RDMALOOP_TEST_RUN_RPC"

func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program returns the program as a command that is killed if it hangs.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), runProgramEnv+"=1")
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// TestProgram runs a server and a client, and ends the server with SIGTERM.
func TestProgram(t *testing.T) {
	server, stderr := program(t, "-listen", "127.0.0.1:0")
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	require.True(t, ok, line)

	client, clientErr := program(t, "-connect", addr)
	output, err := client.Output()
	require.NoError(t, err, clientErr)
	require.Contains(t, string(output), "upper: done \"HELLO\"\n")
	require.Contains(t, string(output), "sum: done \"2cf24dba")
	require.Contains(t, string(output), "wait: done \"waited 100ms\"\n")

	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	require.NoError(t, server.Wait(), stderr)
	require.Empty(t, stderr.String())
}

// TestBadArguments checks that wrong arguments give an error that names them.
func TestBadArguments(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "rpc: either -listen or -connect is needed\n"},
		{[]string{"-listen", "127.0.0.1:0", "-connect", "127.0.0.1:1"}, "rpc: either -listen or -connect is needed\n"},
		{[]string{"nonsense"}, "rpc: unknown argument \"nonsense\"\n"},
		{[]string{"-listen", "nowhere"}, "invalid value \"nowhere\" for flag -listen: address nowhere: missing port in address\n"},
		{[]string{"-listen", "127.0.0.1:0", "-clients", "0"}, "rpc: -clients 0 -workers 16 -grace 10s: out of range\n"},
		{[]string{"-listen", "127.0.0.1:0", "-workers", "5000"}, "rpc: -clients 100 -workers 5000 -grace 10s: out of range\n"},
		{[]string{"-listen", "127.0.0.1:0", "-grace", "0s"}, "rpc: -clients 100 -workers 16 -grace 0s: out of range\n"},
		{[]string{"-listen", "192.0.2.1:7471"}, "rpc: rdma: listen: address not available: 192.0.2.1 is no address of this host\n"},
		{[]string{"-connect", "127.0.0.1:1"}, "rpc: dial 127.0.0.1:1: connection refused: "},
	} {
		cmd, stderr := program(t, test.args...)
		require.Error(t, cmd.Run(), test.args)
		require.Contains(t, stderr.String(), test.want)
	}
}

// TestSize checks that the program stays short: at most 300 lines that are not empty and not a
// comment.
func TestSize(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	lines := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	require.LessOrEqual(t, lines, 300)
	require.Positive(t, lines)
}
