package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
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
func (p *process) report(t *testing.T) (r report) {
	decoder := json.NewDecoder(&p.stdout)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&r), "%s%s", &p.stdout, &p.stderr)
	require.False(t, decoder.More(), "more than one object")
	return r
}

func TestModes(t *testing.T) {
	for _, mode := range []string{"event", "adaptive", "busy"} {
		t.Run(mode, func(t *testing.T) {
			p := program(t, "-json", "-mode", mode, "-count", "2000", "-duration", "50ms")
			require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
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
			require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
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
			require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
			require.Equal(t, 100, p.report(t).Count)
		})
	}
}

// TestManyConnections checks a client with more connections than loops. The messages can
// not be divided equally among the connections.
func TestManyConnections(t *testing.T) {
	p := program(t, "-json", "-conns", "20", "-loops", "2", "-count", "1000", "-inflight", "3", "-duration", "20ms")
	require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
	r := p.report(t)
	require.Equal(t, 1000, r.Count)
	require.Equal(t, 20, r.Connections)
	require.Zero(t, r.Errors)
}

func TestTable(t *testing.T) {
	p := program(t, "-count", "500", "-duration", "10ms")
	require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
	for _, want := range []string{
		"soft device, local path", "500 messages of 64 bytes", "p50 ", "p90 ", "p99 ", "p99.9 ", "max ", "####", "messages/s ",
	} {
		require.Contains(t, p.stdout.String(), want)
	}
	require.Empty(t, p.stderr.String(), "no progress line without a terminal")
}

func TestReject(t *testing.T) {
	p := program(t, "-reject", "come back tomorrow")
	require.Equal(t, exitRejected, p.exit(t))
	require.Contains(t, p.stderr.String(), "rejected: refused by the consumer")
	require.Contains(t, p.stderr.String(), "come back tomorrow")
	require.Empty(t, p.stdout.String(), "no table without results")

	p = program(t, "-json", "-reject", "full", "-conns", "3")
	require.Equal(t, exitRejected, p.exit(t))
	r := p.report(t)
	require.Equal(t, &rejection{Reason: "refused by the consumer", PrivateData: "full"}, r.Rejected)
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
	require.Equal(t, "reached by the local path at "+addr+"\n", line)

	for range 2 {
		client := program(t, "-json", "-connect", addr, "-count", "200", "-duration", "10ms", "-private-data", "who is there")
		require.Equal(t, exitOK, client.exit(t), "%s", &client.stderr)
		r := client.report(t)
		require.Equal(t, 200, r.Count)
		require.Equal(t, "who is there", r.PrivateData)
	}
	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, server.exit(t), "%s", &server.stderr)
}

// TestNoServer checks that a client fails at once if there is no server on the wire path.
func TestNoServer(t *testing.T) {
	addr := netip.AddrPortFrom(demoAddr("wire", false), 7471)
	p := program(t, "-path", "wire", "-connect", addr.String(), "-from", demoAddr("wire", true).String())
	require.Equal(t, exitFailed, p.exit(t))
	require.Contains(t, p.stderr.String(), "no process has UDP port 4791 of "+addr.Addr().String()+": connection refused")
}

// TestPrintServed checks that errors go to the standard error, and reachable addresses to
// the standard output.
func TestPrintServed(t *testing.T) {
	var stdout, stderr bytes.Buffer
	at := netip.MustParseAddrPort("10.0.0.1:7471")
	printServed([]cm.ServedAddr{{Addr: at}, {Path: "local", Addr: at}, {Path: "wire", Addr: at, Err: cm.ErrAddrInUse}}, &stdout, &stderr)
	require.Equal(t, "reached by the device at 10.0.0.1:7471\nreached by the local path at 10.0.0.1:7471\n", stdout.String())
	require.Equal(t, "echo: not reached by the wire path at 10.0.0.1:7471: address in use\n", stderr.String())
}

// A countingServer closes a channel when interruptAfter messages have arrived. The test
// then interrupts the client.
type countingServer struct {
	server
	seen    atomic.Int64
	reached chan struct{}
}

const interruptAfter = 1000

func (s *countingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	s.server.OnMessage(c, msg)
	if s.seen.Add(1) == interruptAfter {
		close(s.reached)
	}
}

// listen runs a server with the handler in this process.
func listen(t *testing.T, h reactor.Handler) (addr string) {
	p, err := provider.Open("soft", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	opts := &options{loops: 1, inflight: 32, size: 64}
	engine, err := reactor.New(p, h, opts.engineConfig(nil))
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	t.Cleanup(func() { require.NoError(t, shutdown(engine)) })
	listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	return listener.Addr().String()
}

// TestInterrupt checks that after Ctrl-C the client reports the results so far.
func TestInterrupt(t *testing.T) {
	for phase, flags := range map[string][]string{
		"ping-pong": {"-count", "1000000000"},
		"streaming": {"-count", "10", "-duration", "1h"},
	} {
		t.Run(phase, func(t *testing.T) {
			s := &countingServer{server: server{stderr: t.Output()}, reached: make(chan struct{})}
			client := program(t, append(flags, "-json", "-connect", listen(t, s))...)
			require.NoError(t, client.Start())
			<-s.reached
			require.NoError(t, client.Process.Signal(syscall.SIGINT))
			require.Equal(t, exitOK, client.exit(t), "%s", &client.stderr)
			r := client.report(t)
			require.True(t, r.Interrupted)
			require.Zero(t, r.Errors)
			require.GreaterOrEqual(t, r.Count+r.StreamMsgs, interruptAfter-1)
		})
	}
}

// TestInterruptWhileConnecting checks that Ctrl-C ends a connecting client without an
// error. The server never answers, because its private data is too long for Reject.
func TestInterruptWhileConnecting(t *testing.T) {
	said, stderr := io.Pipe()
	s := &server{reject: make([]byte, 200), stderr: stderr}
	client := program(t, "-connect", listen(t, s))
	require.NoError(t, client.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "private data 200")
	require.NoError(t, client.Process.Signal(syscall.SIGINT))
	require.Equal(t, exitOK, client.exit(t), "%s", &client.stderr)
	require.Empty(t, client.stderr.String())
	require.Equal(t, "\ninterrupted after 0 messages\n", client.stdout.String())
}

// TestOnePhase checks that the flags can switch off a phase. The table then has no line
// for it.
func TestOnePhase(t *testing.T) {
	p := program(t, "-count", "0", "-duration", "10ms", "-private-data", "hello")
	require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
	require.Contains(t, p.stdout.String(), `private data from the server: "hello"`)
	require.Contains(t, p.stdout.String(), "messages/s")
	require.NotContains(t, p.stdout.String(), "p50")

	p = program(t, "-count", "10", "-duration", "0", "-path", "local")
	require.Equal(t, exitOK, p.exit(t), "%s", &p.stderr)
	require.Contains(t, p.stdout.String(), "p50")
	require.NotContains(t, p.stdout.String(), "messages/s")
}

// A corruptingServer changes one byte of each echo.
type corruptingServer struct{ server }

func (l *corruptingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	msg.Data()[17] ^= 1
	l.server.OnMessage(c, msg)
}

func TestDamageIsReported(t *testing.T) {
	client := program(t, "-json", "-count", "10", "-duration", "0", "-connect", listen(t, &corruptingServer{server{stderr: t.Output()}}))
	require.Equal(t, exitFailed, client.exit(t))
	require.Equal(t, 10, client.report(t).Damaged)
	require.Contains(t, client.stderr.String(), "10 damaged")
}

// A closingServer closes the connection instead of sending an echo.
type closingServer struct{ server }

func (q *closingServer) OnMessage(c *reactor.Conn, _ reactor.Message) { c.Close() }

func TestLossIsReported(t *testing.T) {
	client := program(t, "-json", "-count", "10", "-connect", listen(t, &closingServer{server{stderr: t.Output()}}))
	require.Equal(t, exitFailed, client.exit(t))
	r := client.report(t)
	require.Equal(t, 1, r.Lost)
	require.Equal(t, 1, r.Failed)
	require.Contains(t, client.stderr.String(), reactor.ErrPeerClosed.Error())
}

// A lateServer handles each message after OnMessage has returned. Then Message.Keep
// returns nil.
type lateServer struct {
	server
	closed chan error
}

func (s *lateServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.Loop().Post(func() {
		b := c.Context().(*backlog)
		for c.Send(nil) == nil {
		}
		s.server.OnMessage(c, msg)
		if len(b.held) > 0 {
			b.held = nil
			c.Abort(nil)
		}
	})
}

func (s *lateServer) OnClose(c *reactor.Conn, err error) {
	s.server.OnClose(c, err)
	s.closed <- err
}

// TestNoMemoryToKeep checks that the server ends a connection if it can not keep a
// message.
func TestNoMemoryToKeep(t *testing.T) {
	s := &lateServer{server{stderr: t.Output()}, make(chan error, 1)}
	client := program(t, "-count", "1", "-connect", listen(t, s))
	require.Equal(t, exitFailed, client.exit(t))
	require.ErrorIs(t, <-s.closed, errNoMemory)
}

func TestErrors(t *testing.T) {
	const taken = "127.0.0.9"
	other, err := net.ListenPacket("udp4", taken+":4791")
	require.NoError(t, err)
	defer other.Close()
	for _, test := range []struct {
		want string
		args []string
	}{
		{"-mode", []string{"-mode", "lazy"}},
		{"-size", []string{"-size", "-1"}},
		{"-conns", []string{"-conns", "0"}},
		{"-cpus", []string{"-cpus", "3-1"}},
		{"-duration", []string{"-duration", "-1s"}},
		{"exclude", []string{"-listen", "127.0.0.1:0", "-connect", "127.0.0.1:1"}},
		{"unexpected argument", []string{"now"}},
		{"not defined", []string{"-colour"}},
		{"not supported", []string{"-provider", "rdmacore"}},
		{"auto, local, wire", []string{"-path", "scenic"}},
		{"belongs to another process", []string{"-path", "wire", "-from", taken}},
		{`-connect "nowhere"`, []string{"-connect", "nowhere"}},
		{`-listen "localhost"`, []string{"-listen", "localhost"}},
		{"processors [1000]", []string{"-cpus", "1000"}},
		{"nothing to measure", []string{"-count", "0", "-duration", "0"}},
		{"at most 1073741824", []string{"-size", "1048576", "-inflight", "32", "-conns", "33"}},
		{"no process listens", []string{"-connect", "127.0.0.1:1"}},
		{"-private-data: 57 bytes exceed the limit of 56", []string{"-private-data", strings.Repeat("x", 57)}},
		{"-reject: 149 bytes exceed the limit of 148", []string{"-reject", strings.Repeat("x", 149)}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			p := program(t, test.args...)
			require.Equal(t, exitFailed, p.exit(t))
			require.Equal(t, 1, strings.Count(p.stderr.String(), test.want), "the error must be printed once: %s", &p.stderr)
			require.NotContains(t, p.stderr.String(), "server process", "the server prints its error itself")
			require.Empty(t, p.stdout.String())
		})
	}
}

func TestHelp(t *testing.T) {
	p := program(t, "-h")
	require.Equal(t, exitOK, p.exit(t))
	require.Contains(t, p.stderr.String(), "-private-data")
}
