package gnetrdma_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
)

// TestWithoutUnixSocket checks a server where the directory for temporary files has no
// room for a Unix socket, and that the server serves nobody at the port for UDP instead.
func TestWithoutUnixSocket(t *testing.T) {
	for name, dir := range map[string]string{
		"missing": "missing/directory",
		"long":    strings.Repeat("long", 30),
		"cut":     "kept#part", // gnet takes this path for the path of the directory kept
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.Mkdir(root+"/kept", 0o700))
			if name != "missing" {
				require.NoError(t, os.Mkdir(root+"/"+dir, 0o700))
			}
			t.Setenv("TMPDIR", root+"/"+dir)
			s := run(t, &hooks{traffic: func(c gnet.Conn) gnet.Action {
				assert.Equal(t, "rdma", c.LocalAddr().Network())
				return echo(c)
			}}, gnetrdma.Config{}, nil)
			requireEcho(t, s.dial(), "over RDMA")
			fd, err := s.engine.Dup()
			require.NoError(t, err)
			addr, err := unix.Getsockname(fd)
			require.NoError(t, err)
			require.NoError(t, unix.Close(fd))
			c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.(*unix.SockaddrInet4).Port})
			require.NoError(t, err)
			_, err = c.Write([]byte("for nobody"))
			require.NoError(t, err)
			require.NoError(t, c.Close())
			s.stop() // The loop of gnet handles the datagram before the end.
			require.DirExists(t, root+"/kept")
			entries, err := os.ReadDir(root + "/" + dir)
			require.Equal(t, name == "missing", err != nil)
			require.Empty(t, entries)
		})
	}
}
