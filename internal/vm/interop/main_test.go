package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hangLimit is how long a process of a test may run. A process that runs longer counts as
// a hang.
const hangLimit = 2 * time.Minute

const runProgramEnv = "RDMALOOP_TEST_RUN_INTEROP"

// TestMain runs the program instead of the tests if runProgramEnv is set.
func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	// With the race detector, the process would wait a second before it exits.
	cmd.Env = append(os.Environ(), runProgramEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// A server is a process that runs the program as a server.
type server struct {
	*exec.Cmd
	addr string
	out  *bufio.Reader
}

func startServer(t *testing.T, args string) *server {
	s := &server{Cmd: program(t, append(strings.Fields(args), "-provider", "soft", "-listen", "127.0.0.1:0")...)}
	stdout, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(func() { s.Process.Kill() })
	s.out = bufio.NewReader(stdout)
	line, err := s.out.ReadString('\n')
	require.NoError(t, err, "%s", s.Stderr)
	s.addr = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return s
}

func client(t *testing.T, s *server, args string) *exec.Cmd {
	return program(t, append(strings.Fields(args), "-provider", "soft", "-connect", s.addr)...)
}

// TestPairs checks each protocol between a client and a server of this program.
func TestPairs(t *testing.T) {
	for _, test := range []struct{ name, server, client, want string }{
		{"rping", "rping", "rping -count 20", "rdma-ping-19: "},
		{"smallest", "rping -size 4096", "rping -size 26", "rdma-ping-9: "},
		{"largest", "rping -size 65535", "rping -size 65535", "rdma-ping-9: "},
		{"cmatose", "cmatose", "cmatose", "1 connections, 10 messages each way, 0 refused"},
		{"many", "cmatose -conns 20 -count 100 -size 1", "cmatose -conns 20 -count 100 -size 1", "20 connections"},
		{"refused", "cmatose -conns 2 -refused 3", "cmatose -conns 2 -refused 3", "3 refused"},
		{"latency", "send_lat", "send_lat", "1000 messages of 2 bytes, typical "},
		{"stream", "rstream -verify", "rstream -verify", "1 iterations of 1000 transfers of 1000 bytes, "},
		{"stream sizes", "rstream -size 300001 -count 3 -iterations 2 -buffer 4096 -verify", "rstream -size 300001 -count 3 -iterations 2 -verify", "2 iterations of 3 transfers of 300001 bytes, "},
		{"bandwidth", "send_bw -count 500 -size 4096", "send_bw -count 500 -size 4096", "500 messages of 4096 bytes, "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startServer(t, test.server)
			c := client(t, s, test.client)
			out, err := c.Output()
			require.NoError(t, err, "%s", c.Stderr)
			require.Contains(t, string(out), test.want)
			require.NoError(t, s.Wait(), "%s", s.Stderr)
		})
	}
}

// TestMismatches checks that settings that do not match are an error.
func TestMismatches(t *testing.T) {
	for _, test := range []struct{ name, server, client, want string }{
		{"buffer too small", "rping", "rping -size 65", "closed by the peer"},
		{"other protocol", "cmatose", "rping", "interop: "},
		{"other size", "cmatose -size 99", "cmatose", "a message of 99 bytes, not 100"},
		{"other traffic", "send_lat -size 3", "send_lat -size 2", "closed "},
		{"not refused", "cmatose -conns 3", "cmatose -conns 2 -refused 1", "that was to be refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startServer(t, test.server)
			c := client(t, s, test.client)
			_, err := c.Output()
			require.Error(t, err)
			require.Contains(t, c.Stderr.(*bytes.Buffer).String(), test.want)
			require.Error(t, s.Wait())
		})
	}
}

// TestClientRefused checks a server that rejects all connections. The server succeeds,
// and its client fails.
func TestClientRefused(t *testing.T) {
	s := startServer(t, "cmatose -conns 0 -refused 1")
	c := client(t, s, "cmatose")
	_, err := c.Output()
	require.Error(t, err)
	require.Contains(t, c.Stderr.(*bytes.Buffer).String(), "refused by the application")
	require.NoError(t, s.Wait())
}

func TestFlags(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "missing protocol, one of: cmatose, rping, rstream, send_bw, send_lat"},
		{"rstream -connect 127.0.0.1:1 -sizes some", `-sizes "some": must be one, four or all`},
		{"ping -listen 127.0.0.1:0", `unknown protocol "ping"`},
		{"rping", "need -listen or -connect"},
		{"rping -listen 127.0.0.1:0 -connect 127.0.0.1:1", "need -listen or -connect"},
		{"rping -listen somewhere", "need -listen or -connect"},
		{"rping -listen 127.0.0.1:0 -size 25", "-size 25: must be 26 to 65535"},
		{"cmatose -connect 127.0.0.1:1 -conns 0", "-conns 0: must be 1 to 1024"},
		{"cmatose -provider verbs5 -listen 127.0.0.1:0", `provider "verbs5"`},
		{"cmatose -path up -listen 127.0.0.1:0", `"up" is none of auto, local and wire`},
		{"cmatose -provider soft -listen 192.0.2.1:0", "address"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 1, run(strings.Fields(test.args), &stdout, &stderr))
			require.Contains(t, stderr.String(), test.want)
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"rping", "-h"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "-connect")
}
