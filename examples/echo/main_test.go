package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// hangLimit is how long a process of a test may run. A process that runs longer counts as
// a hang.
const hangLimit = 2 * time.Minute

const runProgramEnv = "RDMALOOP_TEST_RUN_ECHO"

// TestMain runs the program instead of the tests if runProgramEnv is set. The tests set
// it for the processes that they start.
func TestMain(m *testing.M) {
	if os.Getenv(runProgramEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func program(t *testing.T, args ...string) *process {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), hangLimit)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, self, args...)}
	// With the race detector, the process would wait a second before it exits.
	p.Env = append(os.Environ(), runProgramEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	return p
}

// exit waits until the program has exited and returns its exit status. It starts the
// program first if it is not running.
func (p *process) exit(t *testing.T) (status int) {
	if p.Process == nil {
		require.NoError(t, p.Start())
	}
	err := p.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// report parses the program's output, which must be one report as JSON.
func (p *process) report(t *testing.T) (r latency.Report) {
	decoder := json.NewDecoder(&p.stdout)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&r), "%s%s", &p.stdout, &p.stderr)
	require.False(t, decoder.More(), "more than one object")
	return r
}

func TestModes(t *testing.T) {
	for mode := range reactor.IdleBusy + 1 {
		t.Run(mode.String(), func(t *testing.T) {
			p := program(t, "-json", "-mode", mode.String(), "-count", "2000", "-duration", "50ms")
			require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
			r := p.report(t)
			require.Equal(t, "soft", r.Provider)
			require.Equal(t, "local", r.Path)
			require.Equal(t, mode, r.Mode)
			require.Equal(t, 64, r.Size)
			require.Equal(t, 2000, r.Count)
			require.Equal(t, 1, r.Connections)
			require.Zero(t, r.Errors)
			require.Positive(t, r.P50)
			require.IsNonDecreasing(t, []int64{r.P50, r.P90, r.P99, r.P999, r.Max})
			require.Positive(t, r.StreamRate)
		})
	}
}

// TestWire checks that all messages come back on the wire path.
func TestWire(t *testing.T) {
	for _, size := range []string{"64", "100000"} {
		t.Run(size, func(t *testing.T) {
			p := program(t, "-json", "-path", "wire", "-size", size, "-count", "1000", "-duration", "50ms")
			require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
			r := p.report(t)
			require.Equal(t, "wire", r.Path)
			require.Zero(t, r.Errors)
			require.GreaterOrEqual(t, r.Counters["sent_pkts"], uint64(1000))
			require.GreaterOrEqual(t, r.Counters["rcvd_pkts"], uint64(1000))
			require.Positive(t, r.StreamRate)
		})
	}
}

func TestSizes(t *testing.T) {
	for _, size := range []string{"0", "1", "7", "4096", "100000"} {
		t.Run(size, func(t *testing.T) {
			p := program(t, "-json", "-size", size, "-count", "100", "-duration", "10ms")
			require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
			require.Equal(t, 100, p.report(t).Count)
		})
	}
}

// TestManyConnections checks a client with more connections than loops. The messages can
// not be divided equally among the connections.
func TestManyConnections(t *testing.T) {
	p := program(t, "-json", "-conns", "20", "-loops", "2", "-count", "1000", "-inflight", "3", "-duration", "20ms")
	require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
	r := p.report(t)
	require.Equal(t, 1000, r.Count)
	require.Equal(t, 20, r.Connections)
	require.Zero(t, r.Errors)
}

func TestTable(t *testing.T) {
	p := program(t, "-count", "500", "-duration", "10ms")
	require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
	for _, want := range []string{
		"soft device, local path", "500 messages of 64 bytes", "p50 ", "p90 ", "p99 ", "p99.9 ", "max ", "####", "messages/s ",
	} {
		require.Contains(t, p.stdout.String(), want)
	}
	require.Empty(t, p.stderr.String(), "no progress line without a terminal")
}

func TestReject(t *testing.T) {
	p := program(t, "-reject", "come back tomorrow")
	require.Equal(t, latency.ExitRejected, p.exit(t))
	require.Contains(t, p.stderr.String(), "rejected: refused by the consumer")
	require.Contains(t, p.stderr.String(), "come back tomorrow")
	require.Empty(t, p.stdout.String(), "no table without results")

	p = program(t, "-json", "-reject", "full", "-conns", "3")
	require.Equal(t, latency.ExitRejected, p.exit(t))
	r := p.report(t)
	require.Equal(t, &latency.Rejection{Reason: "refused by the consumer", PrivateData: "full"}, r.Rejected)
	require.Equal(t, 3, r.Errors)
}

// TestListenAndConnect checks a server with two clients. Ctrl-C ends the server without
// an error.
func TestListenAndConnect(t *testing.T) {
	server := program(t, "-listen", "127.0.0.1:0")
	server.Stdout = nil
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "uses soft0, the device in software\n", line)
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "reached by the local path at "+addr+"\n", line)

	for range 2 {
		client := program(t, "-json", "-connect", addr, "-count", "200", "-duration", "10ms", "-private-data", "who is there")
		require.Equal(t, latency.ExitOK, client.exit(t), "%s", &client.stderr)
		r := client.report(t)
		require.Equal(t, 200, r.Count)
		require.Equal(t, "who is there", r.PrivateData)
	}
	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.Equal(t, latency.ExitOK, server.exit(t), "%s", &server.stderr)
}

// TestNoServer checks that a client fails at once if there is no server on the wire path.
func TestNoServer(t *testing.T) {
	server, client := latency.Loopback()
	addr := netip.AddrPortFrom(server, 7471)
	p := program(t, "-path", "wire", "-connect", addr.String(), "-from", client.String())
	require.Equal(t, latency.ExitFailed, p.exit(t))
	require.Contains(t, p.stderr.String(), "no process has UDP port 4791 of "+addr.Addr().String()+": connection refused")
}

// TestOnePhase checks that the flags can switch off a phase. The table then has no line
// for it.
func TestOnePhase(t *testing.T) {
	p := program(t, "-count", "0", "-duration", "10ms", "-private-data", "hello")
	require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
	require.Contains(t, p.stdout.String(), `private data from the server: "hello"`)
	require.Contains(t, p.stdout.String(), "messages/s")
	require.NotContains(t, p.stdout.String(), "p50")

	p = program(t, "-count", "10", "-duration", "0", "-path", "local")
	require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
	require.Contains(t, p.stdout.String(), "p50")
	require.NotContains(t, p.stdout.String(), "messages/s")
}

// TestCapture checks that the demo writes a capture, and overwrites no file.
func TestCapture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "echo.pcapng")
	p := program(t, "-count", "100", "-duration", "0", "-capture", file)
	require.Equal(t, latency.ExitOK, p.exit(t), "%s", &p.stderr)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Greater(t, info.Size(), int64(200*100), "200 messages")
	p = program(t, "-capture", file)
	require.Equal(t, latency.ExitFailed, p.exit(t))
	require.Equal(t, 1, strings.Count(p.stderr.String(), file+": file exists"), &p.stderr)
}

func TestErrors(t *testing.T) {
	_, client := latency.Loopback()
	taken := client.String()
	other, err := net.ListenPacket("udp4", taken+":4791")
	require.NoError(t, err)
	defer other.Close()
	for _, test := range []struct {
		want string
		args []string
	}{
		{"adaptive, event and busy", []string{"-mode", "lazy"}},
		{"-size", []string{"-size", "-1"}},
		{"-conns", []string{"-conns", "0"}},
		{"-cpus", []string{"-cpus", "3-1"}},
		{"-duration", []string{"-duration", "-1s"}},
		{"exclude", []string{"-listen", "127.0.0.1:0", "-connect", "127.0.0.1:1"}},
		{"unexpected argument", []string{"now"}},
		{"not defined", []string{"-colour"}},
		{"not supported", []string{"-provider", "rdmacore"}},
		{"auto, local and wire", []string{"-path", "scenic"}},
		{"belongs to another process", []string{"-path", "wire", "-from", taken}},
		{"address nowhere: missing port", []string{"-connect", "nowhere"}},
		{"address localhost: missing port", []string{"-listen", "localhost"}},
		{"processors [1000]", []string{"-cpus", "1000"}},
		{"nothing to measure", []string{"-count", "0", "-duration", "0"}},
		{"at most 1073741824", []string{"-size", "1048576", "-inflight", "32", "-conns", "33"}},
		{"no process listens", []string{"-connect", "127.0.0.1:1"}},
		{"-private-data: 57 bytes exceed the limit of 56", []string{"-private-data", strings.Repeat("x", 57)}},
		{"-reject: 149 bytes exceed the limit of 148", []string{"-reject", strings.Repeat("x", 149)}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			p := program(t, test.args...)
			require.Equal(t, latency.ExitFailed, p.exit(t))
			require.Equal(t, 1, strings.Count(p.stderr.String(), test.want), "the error must be printed once: %s", &p.stderr)
			require.NotContains(t, p.stderr.String(), "server process", "the server prints its error itself")
			require.Empty(t, p.stdout.String())
		})
	}
}

// TestWarning checks that the client warns if busy loops share processors, and the demo's
// server does not.
func TestWarning(t *testing.T) {
	for args, warn := range map[string]bool{
		"-mode busy -cpus 0,1":                                false,
		"-mode busy -cpus 1,1":                                true,
		"-mode busy -cpus 0,1,2 -loops 2":                     true,
		"-mode busy -cpus 0,1 -loops 2 -connect :1":           false,
		"-mode busy -cpus 0,1 -loops 3 -listen :1":            true,
		"-mode busy -cpus 0,1 -loops 3 -listen :1 -until-eof": false,
		"-mode adaptive -cpus 0,1 -loops 3":                   false,
	} {
		var stderr strings.Builder
		_, err := parse(strings.Fields(args), &stderr)
		require.NoError(t, err)
		require.Equal(t, warn, strings.HasPrefix(stderr.String(), "echo: -mode busy: "), "%s: %s", args, &stderr)
	}
}

func TestHelp(t *testing.T) {
	p := program(t, "-h")
	require.Equal(t, latency.ExitOK, p.exit(t))
	require.Contains(t, p.stderr.String(), "-private-data")
}

// TestGiven checks that the flags given to the demo reach its server.
func TestGiven(t *testing.T) {
	args := []string{"-mode", "busy", "-inflight=9", "-loops", "2", "-cpus", "3,0-2", "-reject", "a b", "-json", "-from", "::1"}
	demo, err := parse(args, t.Output())
	require.NoError(t, err)
	require.Equal(t, []int{3, 0}, demo.cpus)
	server, err := parse(append(demo.given, "-until-eof", "-listen", ":1"), t.Output())
	require.NoError(t, err)
	require.Equal(t, demo.Settings, server.Settings)
	require.Equal(t, []int{1, 2}, server.cpus)
	require.Equal(t, "a b", server.reject)
	require.True(t, server.untilEOF)
}
