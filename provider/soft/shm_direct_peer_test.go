//go:build linux

package soft

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// peerRegion is the function of a peer process. The process is a server with a memory
// region. It prints its address, and the address and key of the region.
func peerRegion(t *testing.T, _ string) {
	s := openParty(t, &Config{Vectors: 1, AllowedUsers: []uint32{0}})
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
	q    *qp
	id   *cm.ID
	mr   verbs.MR
	addr uint64 // address and key of the server's region
	key  uint32
}

func newRegionClient(t *testing.T, line string) *regionClient {
	c := &regionClient{party: newHostParty(t)}
	var server string
	_, err := fmt.Sscan(line, &server, &c.addr, &c.key)
	require.NoError(t, err)
	c.mr, err = c.PD.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.mr.Close()) })
	c.id = c.Connecting(cm.TCP, netip.MustParseAddrPort(server), &cm.ConnParam{InitiatorDepth: 1})
	c.Want(cm.Established, c.id)
	c.q = c.id.QP().(*qp)
	return c
}

// post posts a request for the first bytes of the region.
func (c *regionClient) post(op verbs.Opcode, length int) {
	_, err := c.q.PostSend([]verbs.SendWR{{Opcode: op, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(c.mr, 0, length)}, RemoteAddr: c.addr, RKey: c.key}})
	require.NoError(c.T, err)
}

// execute executes a request, and reports whether the region is mapped afterwards.
func (c *regionClient) execute(op verbs.Opcode, length int) (mapped bool) {
	c.T.Helper()
	c.post(op, length)
	require.Equal(c.T, verbs.StatusSuccess, completions(c.T, c.CQ, 1)[0].Status)
	c.q.shard.enter()
	defer c.q.shard.leave()
	r := c.q.path.(*shmConn).p.regions.find(c.key)
	return r != nil && r.state == regionMapped
}

// READs and WRITEs are executed even while the peer's process is stopped. After the end
// of the process they fail.
func TestDirectToStoppedProcess(t *testing.T) {
	cmd := peerproc.Command("server-region", "")
	cmd.SysProcAttr = nil // The peer process runs as the same user as this process.
	line, kill := peerproc.Run(t, cmd)
	c := newRegionClient(t, line())
	for range pollLimit {
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
	line, _ := peerproc.Start(t, "server-region", "")
	c := newRegionClient(t, line())
	for range 3 {
		require.False(t, c.execute(verbs.OpWrite, 13))
	}
	// From now on this side asks for the region. The server refuses.
	c.q.shard.enter()
	c.q.path.(*shmConn).p.sharesRegions = true
	c.q.shard.leave()
	for range 3 {
		require.False(t, c.execute(verbs.OpWrite, 13))
	}
}
