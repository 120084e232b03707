//go:build linux

package soft

import (
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// peers maps the names of roles to the functions of the peer processes.
var peers = map[string]peerproc.Role{
	"client-connecting":    func(t *testing.T, address string) { peerClient(t, address, false) },
	"client-established":   func(t *testing.T, address string) { peerClient(t, address, true) },
	"server-tcp-no-fetch":  func(t *testing.T, _ string) { peerServer(t, cm.TCP, func(*party, *cm.ID) {}) },
	"server-tcp-no-answer": func(t *testing.T, _ string) { peerServer(t, cm.TCP, peerFetch) },
	"server-udp-no-answer": func(t *testing.T, _ string) { peerServer(t, cm.UDP, peerFetch) },
	"server-region":        peerRegion,
	"server-established":   func(t *testing.T, _ string) { peerServer(t, cm.TCP, peerAccept) },
	"random-writer":        peerRandomWriter,
	"unknown-host":         peerUnknownHost,
	"no-descriptors":       peerNoDescriptors,
	"few-descriptors":      peerFewDescriptors,
	"few-to-dial":          peerFewToDial,
	"over-limit":           peerOverLimit,
	"serves":               peerServes,
	"listen-on-all":        peerListenOnAll,
	"added-address":        peerAddedAddress,
	"added-address-udp":    peerAddedLookup,
	"far-only":             peerFarOnly,
	"route-mtu":            peerRouteMTU,
	"from-here":            peerFromHere,
	"far-client":           peerFarClient,
	"far-lookup":           peerFarLookup,
}

// TestPeer is the entry point of a peer process. In the test process it does nothing.
func TestPeer(t *testing.T) { peerproc.Main(t, peers) }

// newHostParty returns a party that allows connections from processes of peerproc.User.
func newHostParty(t *testing.T) *party {
	t.Helper()
	return openParty(t, &Config{AllowedUsers: []uint32{peerproc.User}})
}

func peerClient(t *testing.T, address string, established bool) {
	s := newParty(t)
	id := s.Connecting(cm.TCP, netip.MustParseAddrPort(address), nil)
	if established {
		s.Want(cm.Established, id)
		flood(t, id.QP())
	}
	peerproc.Say("ready")
	peerproc.Linger()
}

// flood posts four SENDs. Receive buffers for them exist only if the test has posted
// some at the peer.
func flood(t *testing.T, qp verbs.QP) {
	for range 4 {
		_, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}})
		require.NoError(t, err)
	}
}

func peerServer(t *testing.T, ps cm.PortSpace, serve func(*party, *cm.ID)) {
	s := newParty(t)
	l := s.Listen(ps, "127.0.0.1:0", 0)
	peerproc.Say(l.LocalAddr().String())
	serve(s, l)
	peerproc.Say("ready")
	peerproc.Linger()
}

func peerFetch(s *party, l *cm.ID) { s.Request(l) }

func peerAccept(s *party, l *cm.ID) {
	id, _ := s.Request(l)
	s.CreateQP(id)
	require.NoError(s.T, id.Accept(nil))
	s.Want(cm.Established, id)
}

func TestServerKilledBeforeAccept(t *testing.T) {
	for role, ps := range map[string]cm.PortSpace{"server-tcp-no-answer": cm.TCP, "server-udp-no-answer": cm.UDP} {
		line, kill := peerproc.Start(t, role, "")
		s := newHostParty(t)
		id := s.Connecting(ps, netip.MustParseAddrPort(line()), nil)
		require.Equal(t, "ready", line())
		kill()
		s.WantRefusal(id, false, nil)
		s.Quiet()
	}
}

// The server is killed while a client waits in the backlog of the server's socket. The
// client is refused.
func TestServerKilledBeforeFetch(t *testing.T) {
	line, kill := peerproc.Start(t, "server-tcp-no-fetch", "")
	s := newHostParty(t)
	dst := netip.MustParseAddrPort(line())
	require.Equal(t, "ready", line())
	id := s.Connecting(cm.TCP, dst, nil)
	kill()
	s.WantRefusal(id, false, nil)
	s.Quiet()
}

func TestServerKilled(t *testing.T) {
	line, kill := peerproc.Start(t, "server-established", "")
	s := newHostParty(t)
	id := s.Connecting(cm.TCP, netip.MustParseAddrPort(line()), nil)
	s.Want(cm.Established, id)
	require.Equal(t, "ready", line())
	flood(t, id.QP())
	kill()
	gone := s.Want(cm.Disconnected, id)
	require.Zero(t, gone.Status)
	require.ErrorIs(t, gone.Err, verbs.ErrPeerGone)
	wantFlushed(t, s.CQ, 4)
	require.NoError(t, id.Disconnect(nil))
	s.Want(cm.TimewaitExit, id)
	s.Quiet()
}

func TestClientKilled(t *testing.T) {
	s := newHostParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := peerproc.Start(t, "client-established", l.LocalAddr().String())
	id, _ := s.Request(l)
	s.CreateQP(id)
	require.NoError(t, id.Accept(nil))
	s.Want(cm.Established, id)
	require.Equal(t, "ready", line())
	flood(t, id.QP())
	kill()
	gone := s.Want(cm.Disconnected, id)
	require.Zero(t, gone.Status)
	require.ErrorIs(t, gone.Err, verbs.ErrPeerGone)
	wantFlushed(t, s.CQ, 4)
}

func TestClientKilledBeforeAccept(t *testing.T) {
	s := newHostParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := peerproc.Start(t, "client-connecting", l.LocalAddr().String())
	id, _ := s.Request(l)
	require.Equal(t, "ready", line())
	kill()
	s.CreateQP(id)
	require.ErrorIs(t, id.Accept(nil), verbs.ErrPeerGone)
	s.Quiet()
}

// wantFlushed waits for n completions. All must be flushed or have used up their
// retries.
func wantFlushed(t *testing.T, cq verbs.CQ, n int) {
	t.Helper()
	for _, wc := range completions(t, cq, n) {
		require.Contains(t, []verbs.Status{verbs.StatusRetryExcErr, verbs.StatusWRFlushErr}, wc.Status)
	}
}

// After an invalid message of the client, the server's queue pair enters the error
// state. The client's queue pair stays in RTS.
func TestClientViolatesProtocol(t *testing.T) {
	client, server := newParty(t), newParty(t)
	active, passive := connected(t, client, server)
	flood(t, passive.QP())
	require.NoError(t, unix.Send(socketTo(t, passive.LocalAddr()), []byte("no message"), unix.MSG_NOSIGNAL))
	require.ErrorIs(t, server.Want(cm.Disconnected, passive).Err, verbs.ErrPeerGone)
	require.Equal(t, verbs.StateError, passive.QP().State())
	require.Equal(t, verbs.StateRTS, active.QP().State(), "the client has not noticed anything")
	wantFlushed(t, server.CQ, 4)
}

// socketTo returns the descriptor of the Unix socket between an ID and a listener. The
// ID owns the descriptor.
func socketTo(t *testing.T, listener netip.AddrPort) int {
	t.Helper()
	name := hostport.New(nil).NewBindAddr(cm.TCP, listener, false).Name()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		require.NoError(t, err)
		if peer, err := unix.Getpeername(fd); err == nil {
			if at, ok := peer.(*unix.SockaddrUnix); ok && at.Name == name {
				return fd
			}
		}
	}
	require.Fail(t, "no socket is connected to the listener")
	return -1
}
