//go:build linux

package soft

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// peerRegion is the function of a peer process. The process is a server with a memory
// region. It prints its address, and the address and key of the region.
func peerRegion(t *testing.T, _ string) {
	s := openParty(t, &Config{AllowedUsers: []uint32{0}})
	mr, err := s.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessAll})
	require.NoError(t, err)
	copy(mr.Bytes(), "of the server")
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	peerproc.Say(fmt.Sprint(l.LocalAddr(), " ", mr.Addr(), " ", mr.RKey()))
	peerAccept(s, l)
	peerproc.Linger()
}

// A regionClient is connected to a process with the role peerRegion.
type regionClient struct {
	*party
	q    verbs.QP
	id   *cm.ID
	mr   verbs.MR
	addr uint64 // address and key of the server's region
	key  uint32
}

// newRegionClient connects a client to the process that has printed the line. If asks is
// true, the client asks for the region whatever the user of the process is.
func newRegionClient(t *testing.T, line string, asks bool) *regionClient {
	c := &regionClient{party: newHostParty(t)}
	for _, w := range c.p.dev.ways {
		if asks && w != nil {
			w.local.SharesWith = func(uint32) bool { return true }
		}
	}
	var server string
	_, err := fmt.Sscan(line, &server, &c.addr, &c.key)
	require.NoError(t, err)
	c.mr, err = c.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.mr.Close()) })
	c.id = c.Connecting(cm.TCP, netip.MustParseAddrPort(server), &cm.ConnParam{InitiatorDepth: 1})
	c.Want(cm.Established, c.id)
	c.q = c.id.QP()
	return c
}

// post posts a request for the first bytes of the region.
func (c *regionClient) post(op verbs.Opcode, length int) {
	_, err := c.q.PostSend([]verbs.SendWR{{Opcode: op, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(c.mr, 0, length)}, RemoteAddr: c.addr, RKey: c.key}})
	require.NoError(c.T, err)
}

// execute executes a request, and reports whether this process maps a region of a peer
// afterwards.
func (c *regionClient) execute(op verbs.Opcode, length int) (mapped bool) {
	c.T.Helper()
	c.post(op, length)
	require.Equal(c.T, verbs.StatusSuccess, completions(c.T, c.CQ, 1)[0].Status)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(c.T, err)
	return strings.Contains(string(maps), "/memfd:rdmaloop-region")
}

// READs and WRITEs are executed even while the peer's process is stopped. After the end
// of the process they fail.
func TestDirectToStoppedProcess(t *testing.T) {
	cmd := peerproc.Command("server-region", "")
	cmd.SysProcAttr = nil // The peer process runs as the same user as this process.
	line, kill := peerproc.Run(t, cmd)
	c := newRegionClient(t, line(), false)
	for range qptest.PollLimit {
		if c.execute(verbs.OpRead, 13) {
			break
		}
	}
	require.NoError(t, cmd.Process.Signal(unix.SIGSTOP))
	_, err := unix.Wait4(cmd.Process.Pid, nil, unix.WUNTRACED, nil)
	require.NoError(t, err)
	copy(c.mr.Bytes(), "of the client")
	require.True(t, c.execute(verbs.OpWrite, 13))
	copy(c.mr.Bytes(), "nothing      ")
	require.True(t, c.execute(verbs.OpRead, 13))
	require.Equal(t, "of the client", string(c.mr.Bytes()[:13]))

	kill()
	c.Want(cm.Disconnected, c.id)
	c.post(verbs.OpWrite, 13)
	wantFlushed(t, c.CQ, 1)
}

// A process of another user can not map the memory.
func TestNotDirectToOtherUser(t *testing.T) {
	peerproc.NeedsRoot(t)
	// If this side asks for the region, the server refuses.
	for _, asks := range []bool{false, true} {
		line, _ := peerproc.Start(t, "server-region", "")
		c := newRegionClient(t, line(), asks)
		for range 3 {
			require.False(t, c.execute(verbs.OpWrite, 13))
		}
	}
}
