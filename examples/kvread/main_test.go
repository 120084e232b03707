package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/kvread/client"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

const runProgramEnv = "RDMALOOP_TEST_RUN_KVREAD"

// TestMain runs the program instead of the tests if runProgramEnv is set. The tests set
// it for the processes that they start.
func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestDemo checks that the demonstration prints a line for each way and path.
func TestDemo(t *testing.T) {
	t.Setenv(runProgramEnv, "1")
	var stdout bytes.Buffer
	require.Zero(t, run([]string{"-duration", "1ms", "-fill", "5000"}, &stdout, os.Stderr))
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	require.Len(t, lines, 2+2*3, "%s", &stdout)
	for i, prefix := range []string{"local  READs ", "local  message ", "local  net/rpc ", "wire   READs ", "wire   message ", "wire   net/rpc "} {
		require.Contains(t, lines[2+i], prefix)
	}
}

// startProgram starts the server with a file in dir.
func startProgram(t *testing.T, dir string, fill int) *serverProcess {
	t.Setenv(runProgramEnv, "1")
	s, err := startServer(&options{provider: "soft", path: soft.PathLocal, file: filepath.Join(dir, "store"), bucket: demoBucket, fill: fill}, os.Stderr)
	require.NoError(t, err)
	return s
}

// TestReadme checks the second and third command of README.md.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^go -C examples/kvread run \.(.*)$`).FindAllSubmatch(readme, -1)
	require.Len(t, commands, 3)
	require.Empty(t, commands[0][1])
	serveArgs, readArgs := strings.Fields(string(commands[1][1])), strings.Fields(string(commands[2][1]))
	opts, err := parse(serveArgs, io.Discard)
	require.NoError(t, err)
	s := startProgram(t, t.TempDir(), opts.fill)
	readArgs[1] = s.addr.String()
	var stdout bytes.Buffer
	require.Zero(t, run(append([]string{"-provider", "soft", "-path", "local"}, readArgs...), &stdout, os.Stderr))
	require.Equal(t, string(demoValue(nil, 42))+"\n", stdout.String())
	require.NoError(t, s.stop())
}

// TestServerKilled checks that a client gets an error when the server is killed.
func TestServerKilled(t *testing.T) {
	s := startProgram(t, t.TempDir(), 1000)
	o := &options{provider: "soft", path: soft.PathLocal, connect: s.addr}
	require.NoError(t, withClient(o, func(c *client.Client) error {
		require.NoError(t, c.Begin())
		_, err := c.Get([]byte(demoBucket), demoKey(nil, 1))
		require.NoError(t, err)
		require.NoError(t, s.cmd.Process.Kill())
		for err == nil {
			_, err = c.Get([]byte(demoBucket), demoKey(nil, 1))
		}
		require.ErrorContains(t, err, "connection to the server")
		require.NotErrorIs(t, err, reactor.ErrTimeout)
		return nil
	}))
	require.Error(t, s.stop())
}

// TestParseErrors checks that wrong flags are refused.
func TestParseErrors(t *testing.T) {
	for _, args := range [][]string{
		{"key"}, {"-connect", "127.0.0.1:1"}, {"-fill", "-1"}, {"-duration", "0s"}, {"-listen", "x"}, {"-unknown"},
	} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, "%v", args)
	}
}
