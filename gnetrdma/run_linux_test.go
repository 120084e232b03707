package gnetrdma_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
)

// privatePort returns the port for UDP of the engine of gnet.
func privatePort(t *testing.T, e gnet.Engine) int {
	fd, err := e.Dup()
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	addr, err := unix.Getsockname(fd)
	require.NoError(t, err)
	local := addr.(*unix.SockaddrInet4)
	require.Equal(t, [4]byte{127, 0, 0, 1}, local.Addr)
	return local.Port
}

// droppedAt returns how many datagrams the kernel has dropped at a port for UDP.
// See proc_pid_net(5).
func droppedAt(t *testing.T, port int) (drops string) {
	table, err := os.ReadFile("/proc/net/udp")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); f[1] == fmt.Sprintf("0100007F:%04X", port) {
			return f[len(f)-1]
		}
	}
	require.FailNow(t, "the port is not open")
	return ""
}

// TestPrivatePort checks that the kernel drops what is sent to the port of the engine of gnet,
// that the handler does not learn of it, and that there are no files.
func TestPrivatePort(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
		assert.Equal(t, "rdma", c.LocalAddr().Network())
		return echo(c)
	}}, gnetrdma.Config{}, nil)
	requireEcho(t, s.dial(), "over RDMA")
	port := privatePort(t, s.engine)
	require.Equal(t, "0", droppedAt(t, port))
	c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	require.NoError(t, err)
	_, err = c.Write([]byte("for nobody"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return droppedAt(t, port) == "1" }, 10*time.Second, time.Millisecond)
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, entries)
	s.stop()
}

// TestKilledServer checks that a server that is killed leaves nothing in the directory for
// temporary files.
func TestKilledServer(t *testing.T) {
	const name = "GNETRDMA_TEST_KILLED"
	if os.Getenv(name) != "" {
		err := gnetrdma.Run(&hooks{tick: func() (time.Duration, gnet.Action) {
			fmt.Println("it runs")
			return time.Hour, gnet.None
		}}, "rdma://127.0.0.1:0", gnet.WithTicker(true))
		require.NoError(t, err)
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilledServer$")
	child.Env = append(os.Environ(), name+"=1", "TMPDIR="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	for lines := bufio.NewScanner(out); ; {
		require.True(t, lines.Scan(), "the server has ended")
		if lines.Text() == "it runs" {
			break
		}
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
