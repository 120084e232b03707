package main

import (
	"bufio"
	"bytes"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
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

// A server is a running target.
type server struct {
	*testing.T
	cmd  *exec.Cmd
	addr netip.AddrPort
}

// serveREADME starts the target with the flags of the README's command, at a loopback
// address and in the directory dir.
func serveREADME(t *testing.T, dir string) *server {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^    go run ./examples/nvmeof (-listen .*)$`).FindSubmatch(readme)
	require.NotNil(t, line, "the README has no command that serves a disk")
	args := strings.Fields(strings.ReplaceAll(string(line[1]), "192.0.2.1:4420", "127.0.0.1:0"))
	s := &server{T: t, cmd: program(t, args...)}
	s.cmd.Dir = dir
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	text, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	_, addr, _ := strings.Cut(strings.TrimSpace(text), " at ")
	s.addr, err = netip.ParseAddrPort(addr)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return s
}

// stop stops the target, which must report no error.
func (s *server) stop() {
	require.NoError(s, s.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(s, s.cmd.Wait())
}

// transfer reads or writes a block of the disk.
func (s *server) transfer(opcode uint8, data []byte) {
	p, err := soft.Open(&soft.Config{Path: soft.PathLocal, Vectors: 1})
	require.NoError(s, err)
	h, err := initiator.NewHost(p, &initiator.Config{NQN: "nqn.2026-11.example:host"})
	require.NoError(s, err)
	memory, err := h.Alloc(len(data))
	require.NoError(s, err)
	copy(memory.Bytes(), data)
	c, err := h.Connect(s.Context(), s.addr, "nqn.2026-11.io.github.rdmaloop:disk")
	require.NoError(s, err)
	require.NoError(s, c.OpenQueues(s.Context(), 1, 16))
	r := initiator.Transfer(opcode, 1, 3, len(data)/blockSize, reactor.Piece{Region: memory, Length: len(data)})
	_, err = c.IO[0].Do(s.Context(), r)
	require.NoError(s, err)
	copy(data, memory.Bytes())
	require.NoError(s, c.Close(s.Context()))
	require.NoError(s, h.Close())
	require.NoError(s, p.Close())
}

// The README's command serves a disk that keeps its data over a restart of the target.
func TestServeREADME(t *testing.T) {
	dir := t.TempDir()
	data := bytes.Repeat([]byte("kept"), 2*blockSize/4)
	s := serveREADME(t, dir)
	s.transfer(nvme.IOWrite, bytes.Clone(data))
	s.stop()

	info, err := os.Stat(filepath.Join(dir, "disk.img"))
	require.NoError(t, err)
	require.Equal(t, int64(1<<30), info.Size())

	s = serveREADME(t, dir)
	back := make([]byte, len(data))
	s.transfer(nvme.IORead, back)
	require.Equal(t, data, back)
	s.stop()
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
