//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/monitor"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestMain(m *testing.M) {
	if suite := os.Getenv(suiteVariable); suite != "" {
		runSuite(suite)
	}
	leak.Main(m)
}

// runCommand runs a command and returns the exit status and the outputs.
func runCommand(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// TestUsage checks the status and the first line for arguments that are wrong, and for help.
func TestUsage(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		line   string
	}{
		"":                                  {exitUsage, "usage: rdmaloop COMMAND [FLAGS] [ARGUMENTS]"},
		"-h":                                {exitOK, "usage: rdmaloop COMMAND [FLAGS] [ARGUMENTS]"},
		"dance":                             {exitUsage, `rdmaloop: unknown command "dance"`},
		"doctor -h":                         {exitOK, "usage: rdmaloop doctor [FLAGS]"},
		"doctor -no":                        {exitUsage, "rdmaloop doctor: flag provided but not defined: -no"},
		"doctor here":                       {exitUsage, `rdmaloop doctor: unexpected argument "here"`},
		"doctor -addr here":                 {exitUsage, `rdmaloop doctor: invalid value "here" for flag -addr: must be an IP address such as 192.0.2.1`},
		"doctor -addr=":                     {exitUsage, `rdmaloop doctor: invalid value "" for flag -addr: must be an IP address such as 192.0.2.1`},
		"doctor -json=7":                    {exitUsage, `rdmaloop doctor: invalid boolean value "7" for -json: must be true or false`},
		"doctor -port x":                    {exitUsage, `rdmaloop doctor: invalid value "x" for flag -port: must be a whole number`},
		"doctor -cpus 1-":                   {exitUsage, `rdmaloop doctor: invalid value "1-" for flag -cpus: "1-" is no list of processors such as 0,2-3`},
		"doctor -cpus a":                    {exitUsage, `rdmaloop doctor: invalid value "a" for flag -cpus: "a" is no list of processors such as 0,2-3`},
		"doctor -cpus=":                     {exitUsage, `rdmaloop doctor: invalid value "" for flag -cpus: no processor is named, as in 0,2-3`},
		"doctor -port 70000":                {exitUsage, "rdmaloop doctor: -port 70000: must be from 1 to 65535"},
		"version now":                       {exitUsage, `rdmaloop version: unexpected argument "now"`},
		"top a b":                           {exitUsage, `rdmaloop top: unexpected argument "b"`},
		"top -interval 1ns":                 {exitUsage, "rdmaloop top: -interval 1ns: must be at least 10ms"},
		"top -n -1":                         {exitUsage, "rdmaloop top: -n -1: must not be negative"},
		"ping":                              {exitUsage, "rdmaloop ping: give a host, or -listen"},
		"ping -listen :0 127.0.0.1":         {exitUsage, "rdmaloop ping: give a host, or -listen"},
		"ping -size 7 127.0.0.1":            {exitUsage, "rdmaloop ping: -size 7: must be from 8 to 1048576"},
		"ping -count 0 127.0.0.1":           {exitUsage, "rdmaloop ping: -count 0: must be from 1 to 10000000"},
		"ping -timeout 0s 127.0.0.1":        {exitUsage, "rdmaloop ping: -timeout 0s: must be more than 0, and at most 1h"},
		"ping -interval -1s 127.0.0.1":      {exitUsage, "rdmaloop ping: -interval -1s: must not be negative"},
		"ping -interval x 127.0.0.1":        {exitUsage, `rdmaloop ping: invalid value "x" for flag -interval: must be a time with its unit, such as 10ms or 5s`},
		"ping -count 1e3 127.0.0.1":         {exitUsage, `rdmaloop ping: invalid value "1e3" for flag -count: must be a whole number`},
		"ping -mode lazy 127.0.0.1":         {exitUsage, `rdmaloop ping: invalid value "lazy" for flag -mode: idle policy: "lazy" is none of adaptive, event and busy`},
		"ping -path air 127.0.0.1":          {exitUsage, `rdmaloop ping: invalid value "air" for flag -path: `},
		"ping -from here 127.0.0.1":         {exitUsage, `rdmaloop ping: invalid value "here" for flag -from: must be an IP address such as 192.0.2.1`},
		"ping -from ::1 -listen :0":         {exitUsage, "rdmaloop ping: -listen and -from exclude each other"},
		"ping -from ::1 127.0.0.1:1":        {exitFailed, "rdmaloop ping: dial 127.0.0.1:1: source: ::1 is not of the family of the destination, 127.0.0.1"},
		"ping -from 192.0.2.77 127.0.0.1:1": {exitFailed, "rdmaloop ping: dial 127.0.0.1:1: address not available: 192.0.2.77 is no address of this host"},
		"ping -provider air 127.0.0.1":      {exitUsage, `rdmaloop ping: -provider "air": must be one of auto, soft, rdmacore`},
		"ping 127.0.0.1:1":                  {exitFailed, "rdmaloop ping: "},
		"ping 127.0.0.1:x":                  {exitUsage, "rdmaloop ping: port x: must be from 1 to 65535"},
		"ping 127.0.0.1:99999":              {exitUsage, "rdmaloop ping: port 99999: must be from 1 to 65535"},
		"ping 127.0.0.1:0":                  {exitUsage, "rdmaloop ping: port 0: must be from 1 to 65535"},
		"ping -listen nonsense":             {exitUsage, `rdmaloop ping: "nonsense": must be host:port, such as 127.0.0.1:7471`},
		"ping -listen :99999":               {exitUsage, "rdmaloop ping: port 99999: must be from 0 to 65535"},
		"ping -listen 192.0.2.77:1":         {exitFailed, "rdmaloop ping: "},
		"selftest":                          {exitUsage, "rdmaloop selftest: an argument is missing"},
		"selftest -provider air a":          {exitUsage, `rdmaloop selftest: -provider "air": must be rdmacore or soft`},
		"selftest -run ( a":                 {exitUsage, "rdmaloop selftest: -run: "},
		"selftest -provider soft here":      {exitFailed, `rdmaloop selftest: no device has the name or the address "here", or the device has no address of a network; devices: soft0`},
		"selftest -provider soft -run nothing soft0": {exitFailed, `rdmaloop selftest: no case matches "nothing"`},
	} {
		status, stdout, stderr := runCommand(t, strings.Fields(args)...)
		require.Equal(t, want.status, status, args)
		require.Empty(t, stdout, args)
		require.Truef(t, strings.HasPrefix(stderr, want.line), "%s: %s", args, stderr)
		if status == exitFailed {
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		}
	}
}

func TestDoctor(t *testing.T) {
	_, stdout, stderr := runCommand(t, "doctor", "-json", "-addr", "127.0.0.1", "-cpus", "0")
	require.Empty(t, stderr)
	var list []map[string]string
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	require.NotEmpty(t, list)
}

func TestVersion(t *testing.T) {
	status, stdout, _ := runCommand(t, "version")
	require.Equal(t, exitOK, status)
	require.Regexp(t, `^rdmaloop .*, go1\.\d+.*, linux \w+ \d+\.\d+`, stdout)
}

// listenPing runs ping -listen until the end of the test, and returns the address.
func listenPing(t *testing.T, flags ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() { ended <- run(ctx, append([]string{"ping", "-listen", "127.0.0.1:0"}, flags...), in, os.Stderr) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	t.Cleanup(func() {
		stop()
		require.Equal(t, exitOK, <-ended)
	})
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

func TestPing(t *testing.T) {
	addr := listenPing(t, "-size", "5000")
	status, stdout, stderr := runCommand(t, "ping", addr, "-count", "50", "-size", "5000")
	require.Empty(t, stderr)
	require.Equal(t, exitOK, status)
	require.Regexp(t, `^50 round trips of 5000 bytes to 127\.0\.0\.1:\d+, device soft0, memory shared with process \d+\nmin \S+  p50 \S+  p90 \S+  p99 \S+  p99\.9 \S+  max \S+\n$`, stdout)
	status, stdout, _ = runCommand(t, "ping", "-json", "-count=3", "-interval=1ms", addr)
	require.Equal(t, exitOK, status)
	var r pingResult
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, 3, r.Count)
	require.Positive(t, r.Min)
	require.GreaterOrEqual(t, r.Max, r.P50)
}

// TestPingEnds checks that a server that ends in the middle is an error, and that the round
// trips until then are printed. The client connects from the address of -from.
func TestPingEnds(t *testing.T) {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	h := &oneAnswer{}
	engine, err := reactor.New(device, h, nil)
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	ln, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	status, stdout, stderr := runCommand(t, "ping", "-from", "127.0.0.9", ln.Addr().String())
	require.Equal(t, exitFailed, status)
	require.Contains(t, stdout, "1 round trips of 64 bytes")
	require.Contains(t, stderr, "rdmaloop ping: the connection has ended after 1 round trips: ")
	require.NoError(t, engine.Shutdown(context.Background()))
	require.NoError(t, device.Close())
	require.Equal(t, "127.0.0.9", h.client.String())
}

// oneAnswer answers one message.
type oneAnswer struct {
	reactor.BaseHandler
	answered bool
	client   netip.Addr
}

func (h *oneAnswer) OnOpen(c *reactor.Conn) { h.client = c.Info().RemoteAddr.Addr() }

func (h *oneAnswer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if h.answered {
		_ = c.Close()
		return
	}
	h.answered = c.Send(msg.Data(), nil) == nil
}

// monitored starts an engine that offers its counters.
func monitored(t *testing.T, dir, name string) (stop func()) {
	t.Helper()
	device, err := soft.Open(nil)
	require.NoError(t, err)
	engine, err := reactor.New(device, reactor.BaseHandler{}, nil)
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	s, err := monitor.Listen(engine, &monitor.Options{Name: name, Dir: dir})
	require.NoError(t, err)
	return func() {
		require.NoError(t, s.Close())
		require.NoError(t, engine.Shutdown(context.Background()))
		require.NoError(t, device.Close())
	}
}

func TestTop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	status, _, stderr := runCommand(t, "top", "-dir", dir)
	require.Equal(t, exitFailed, status)
	require.Equal(t, "rdmaloop top: no program of this user offers its counters in "+dir+": it has to call monitor.Listen\n", stderr)

	stop := monitored(t, dir, "one")
	status, stdout, stderr := runCommand(t, "top", "-dir", dir, "-n", "2", "-interval", "10ms")
	require.Empty(t, stderr)
	require.Equal(t, exitOK, status)
	require.Regexp(t, `(?m)^one \d+, \d\d:\d\d:\d\d$`, stdout)
	require.Equal(t, 2, strings.Count(stdout, "\nloop 0 "))
	status, stdout, _ = runCommand(t, "top", "-dir", dir, "-n", "1", "-interval", "10ms", "-json")
	require.Equal(t, exitOK, status)
	var s monitor.Snapshot
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Equal(t, "one", s.Program)

	// With another program, the user has to choose.
	stopOther := monitored(t, dir, "other")
	list, err := monitor.Sockets(dir)
	require.NoError(t, err)
	status, _, stderr = runCommand(t, "top", "-dir", dir)
	require.Equal(t, exitUsage, status)
	require.Equal(t, "rdmaloop top: several programs run, name the socket of one:\n  "+list[0]+"\n  "+list[1]+"\n", stderr)
	stopOther()
	stop()
}

// TestTopNoProgram checks sockets of no program.
func TestTopNoProgram(t *testing.T) {
	dir := t.TempDir()
	file, killed := filepath.Join(dir, "file"), filepath.Join(dir, "killed.1.sock")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: killed, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	for name, want := range map[string]string{
		filepath.Join(dir, "nosuch"): filepath.Join(dir, "nosuch") + ": no such socket",
		file:                         file + ": not a socket of monitor.Listen",
		dir:                          dir + ": not a socket of monitor.Listen",
		killed:                       "killed.1.sock: the program has ended",
	} {
		status, _, stderr := runCommand(t, "top", name)
		require.Equal(t, exitFailed, status)
		require.Equal(t, "rdmaloop top: "+want+"\n", stderr)
	}
}

// TestTopColumns checks that the help explains each column.
func TestTopColumns(t *testing.T) {
	now := &monitor.Snapshot{}
	_, _, help := runCommand(t, "top", "-h")
	header := strings.Fields(strings.Split(rates(now, now), "\n")[2])
	require.Greater(t, len(header), 10)
	for _, column := range header[1:] {
		require.Contains(t, help, column)
	}
}

// TestTopUntilEnd checks a program that ends while top runs.
func TestTopUntilEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	stop := monitored(t, dir, "one")
	first := &notify{wrote: make(chan struct{}, 100)}
	ended := make(chan int)
	var stderr bytes.Buffer
	go func() {
		ended <- run(context.Background(), []string{"top", "-dir", dir, "-interval", "10ms"}, first, &stderr)
	}()
	<-first.wrote
	stop()
	require.Equal(t, exitFailed, <-ended)
	require.Contains(t, stderr.String(), "the program has ended")
}

// notify is a Writer that reports each call.
type notify struct{ wrote chan struct{} }

func (n *notify) Write(b []byte) (int, error) {
	select {
	case n.wrote <- struct{}{}:
	default:
	}
	return len(b), nil
}

func TestSelftest(t *testing.T) {
	status, stdout, _ := runCommand(t, "selftest", "-provider", "soft", "-run", "/(device|order)", "soft0")
	require.Equal(t, exitOK, status, stdout)
	require.Regexp(t, `(?m)^passed \d\d, failed 0, skipped 1$`, stdout)
	require.Contains(t, stdout, "\nskipped manual/order/posted_from_several_goroutines: ")
	require.Contains(t, stdout, "device soft0 of the provider soft, address 127.0.0.1\n")

	status, stdout, _ = runCommand(t, "selftest", "-provider", "soft", "-run", "auto/device", "-json", "127.0.0.1")
	require.Equal(t, exitOK, status)
	var r selftestReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Positive(t, r.Passed)
}

// TestSelftestReads checks the report of cases that fail, and of an output that ends early.
func TestSelftestReads(t *testing.T) {
	const output = `=== RUN   Conformance
=== RUN   Conformance/auto
=== RUN   Conformance/auto/send
=== RUN   Conformance/auto/send/one
    send.go:12: error: no answer
=== RUN   Conformance/auto/send/two
=== RUN   Conformance/auto/send/three
    providertest.go:1: the device does not have the capability: atomics
=== NAME  Conformance/auto/send/one
    rig.go:2: close MR: busy
--- FAIL: Conformance (0.01s)
    --- FAIL: Conformance/auto (0.01s)
        --- FAIL: Conformance/auto/send (0.01s)
            --- FAIL: Conformance/auto/send/one (0.00s)
            --- PASS: Conformance/auto/send/two (0.00s)
            --- SKIP: Conformance/auto/send/three (0.00s)
FAIL
`
	var r selftestReport
	r.read(strings.NewReader(output), io.Discard)
	require.Equal(t, 1, r.Passed)
	require.Equal(t, []selftestCase{{"auto/send/one", "send.go:12: error: no answer\nrig.go:2: close MR: busy"}}, r.Failed)
	require.Equal(t, []selftestCase{{"auto/send/three", "providertest.go:1: the device does not have the capability: atomics"}}, r.Skipped)
	require.Contains(t, r.String(), "passed 1, failed 1, skipped 1\nFAILED auto/send/one\n  send.go:12: error: no answer\n  rig.go:2: close MR: busy\n")
}
