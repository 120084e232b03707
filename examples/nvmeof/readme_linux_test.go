package main

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
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

// readmeCommands has the command blocks of README.md. The virtual machine runs the
// commands that need root. For such a command, the file guestFile of internal/vm/guest
// must contain guestText.
var readmeCommands = []struct{ command, guestFile, guestText string }{
	{command: "go run ./examples/nvmeof"},
	{command: "go run ./examples/nvmeof -listen 192.0.2.1:4420 -size 1G -file disk.img"},
	{
		`echo "transport=rdma,traddr=192.0.2.1,trsvcid=4420,nqn=nqn.2026-11.io.github.rdmaloop:disk" > /dev/nvme-fabrics`,
		"lib.sh", `options="transport=rdma,traddr=$1,trsvcid=4420,nqn=$subsystem`,
	},
}

// TestReadmeCommands checks that this file has all command blocks of README.md.
func TestReadmeCommands(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	found := regexp.MustCompile("```sh .*\n(.*)\n```").FindAllSubmatch(readme, -1)
	require.Len(t, found, len(readmeCommands))
	for i, c := range readmeCommands {
		require.Equal(t, c.command, string(found[i][1]))
		if c.guestFile != "" {
			script, err := os.ReadFile(filepath.Join("..", "..", "internal", "vm", "guest", c.guestFile))
			require.NoError(t, err)
			require.Contains(t, string(script), c.guestText)
		}
	}
}

// TestReadmeInCopy runs the commands that need no root in a copy of the repository. The
// copy has only the files that copyRepository copies.
func TestReadmeInCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the copy, which takes 10 s: make test-full runs it")
	}
	dir := t.TempDir()
	copyRepository(t, dir)
	out := runIn(t, dir, readmeCommands[0].command+" -duration 5ms")
	require.Contains(t, out, "\nwire ")

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
	require.Equal(t, data, back, "the data must survive a restart of the target")
	s.stop()
}

// copyRepository copies the files of the module that a clone would have.
func copyRepository(t *testing.T, dir string) {
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != root:
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), b, 0o600)
	}))
}

// commandIn returns a command of README.md that is not started yet. It gets a process
// group of its own, for stop.
func commandIn(t *testing.T, dir, command string) *exec.Cmd {
	words := strings.Fields(command)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Stderr = dir, &bytes.Buffer{}
	cmd.Env = append(os.Environ(), "GOWORK=") // The reader's command uses go.work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// runIn runs a command of README.md and returns its output.
func runIn(t *testing.T, dir, command string) string {
	cmd := commandIn(t, dir, command)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", cmd.Stderr)
	return string(out)
}

// A server is a running target.
type server struct {
	*testing.T
	cmd  *exec.Cmd
	addr netip.AddrPort
}

// transfer reads or writes a block of the disk.
func (s *server) transfer(opcode uint8, data []byte) {
	p, err := soft.Open(&soft.Config{Path: soft.PathLocal})
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

// serveREADME starts the target with the command of README.md, at a loopback address.
func serveREADME(t *testing.T, dir string) *server {
	command := strings.Replace(readmeCommands[1].command, "192.0.2.1:4420", "127.0.0.1:0", 1)
	s := &server{T: t, cmd: commandIn(t, dir, command)}
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

// stop stops the target as Ctrl-C does. The target must not fail. After a signal the exit
// status of go run is always 1. If the target has failed, go run prints its exit status.
func (s *server) stop() {
	require.NoError(s, syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT))
	_ = s.cmd.Wait()
	require.NotContains(s, s.cmd.Stderr.(*bytes.Buffer).String(), "exit status")
}
