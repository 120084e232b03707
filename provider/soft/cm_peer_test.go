//go:build linux

package soft

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Environment variables that select the role of a peer process, which is a copy of the
// test binary.
const (
	peerRole    = "RDMALOOP_TEST_PEER"
	peerAddress = "RDMALOOP_TEST_ADDRESS"
)

var peers = map[string]func(t *testing.T, address string){
	"low-port":             peerLowPort,
	"client-connecting":    func(t *testing.T, address string) { peerClient(t, address, false) },
	"client-established":   func(t *testing.T, address string) { peerClient(t, address, true) },
	"server-tcp-no-fetch":  func(t *testing.T, _ string) { peerServer(t, cm.TCP, func(*party, *cm.ID) {}) },
	"server-tcp-no-answer": func(t *testing.T, _ string) { peerServer(t, cm.TCP, peerFetch) },
	"server-udp-no-answer": func(t *testing.T, _ string) { peerServer(t, cm.UDP, peerFetch) },
	"server-established":   func(t *testing.T, _ string) { peerServer(t, cm.TCP, peerAccept) },
	"random-writer":        peerRandomWriter,
	"closed-port-ipv6":     peerClosedPortIPv6,
	"few-descriptors":      peerFewDescriptors,
	"few-to-dial":          peerFewToDial,
	"no-descriptors":       peerNoDescriptors,
	"over-limit":           peerOverLimit,
	"unchecked-source":     peerUncheckedSource,
	"unknown-host":         peerUnknownHost,
	"serves":               peerServes,
	"listen-on-all":        peerListenOnAll,
	"added-address":        peerAddedAddress,
	"added-address-udp":    peerAddedLookup,
	"refused":              peerRefused,
	"datagram-sink":        peerDatagramSink,
	"datagram-source":      peerDatagramSource,
	"datagram-senders":     peerDatagramSenders,
	"datagram-full":        peerDatagramNoDescriptors,
	"datagram-dest-full":   peerDatagramDestNoDescriptors,
	"squat-accepting":      squatAccepting,
	"bind-any-clashes":     peerBindAnyClashes,
	"far-only":             peerFarOnly,
	"from-here":            peerFromHere,
	"far-client":           peerFarClient,
	"far-lookup":           peerFarLookup,
	"squat-full":           squatFull,
	"squat-bound":          squatBound,
	"server-credentials":   peerAcceptAllowed,
	"unmapped-server":      peerUnmappedServer,
}

// TestPeer is the entry point of a peer process. In the test run itself it does nothing.
func TestPeer(t *testing.T) {
	if role := os.Getenv(peerRole); role != "" {
		peers[role](t, os.Getenv(peerAddress))
		os.Exit(0)
	}
}

// peerUser is the user of the peer processes if this process is root. The number is
// arbitrary; no account needs to have it.
const peerUser = 20001

// newHostParty returns a party that allows the peer processes of asPeer.
func newHostParty(t *testing.T) *party {
	t.Helper()
	return openParty(t, &Config{Vectors: 1, AllowedUsers: []uint32{peerUser}})
}

// asPeer returns the command that runs a peer process. If this process is root, the peer
// runs as peerUser.
func asPeer(t *testing.T, role, address string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPeer$")
	cmd.Env = append(os.Environ(), peerRole+"="+role, peerAddress+"="+address)
	cmd.Stderr = os.Stderr
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: peerUser, Gid: peerUser}}
	}
	return cmd
}

// startPeer starts a peer process. line returns the next line that the peer prints. kill
// ends the peer with SIGKILL.
func startPeer(t *testing.T, role, address string) (line func() string, kill func()) {
	t.Helper()
	return runPeer(t, asPeer(t, role, address))
}

// runPeer starts the command of a peer process; see startPeer.
func runPeer(t *testing.T, cmd *exec.Cmd) (line func() string, kill func()) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	line = func() string {
		t.Helper()
		require.True(t, lines.Scan(), "the peer ended: %v", lines.Err())
		return lines.Text()
	}
	done := false
	kill = func() {
		if !done {
			done = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	return line, kill
}

func say(text string) { os.Stdout.WriteString(text + "\n") }

// linger waits until the process is killed, or until the test process has ended.
func linger() { _, _ = io.Copy(io.Discard, os.Stdin) }

func peerClient(t *testing.T, address string, established bool) {
	s := newParty(t)
	id := s.connecting(cm.TCP, netip.MustParseAddrPort(address), nil)
	if established {
		s.want(cm.Established, id)
		flood(t, id.QP())
	}
	say("ready")
	linger()
}

// flood posts sends for which the other side has no receive buffers.
func flood(t *testing.T, qp verbs.QP) {
	for range 4 {
		_, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}})
		require.NoError(t, err)
	}
}

func peerServer(t *testing.T, ps cm.PortSpace, serve func(*party, *cm.ID)) {
	s := newParty(t)
	l := s.listen(ps, "127.0.0.1:0", 0)
	say(l.LocalAddr().String())
	serve(s, l)
	say("ready")
	linger()
}

func peerFetch(s *party, l *cm.ID) { s.request(l) }

func peerAccept(s *party, l *cm.ID) {
	id, _ := s.request(l)
	s.createQP(id)
	require.NoError(s.t, id.Accept(nil))
	s.want(cm.Established, id)
}

func TestServerKilledBeforeAccept(t *testing.T) {
	for role, ps := range map[string]cm.PortSpace{"server-tcp-no-answer": cm.TCP, "server-udp-no-answer": cm.UDP} {
		line, kill := startPeer(t, role, "")
		s := newHostParty(t)
		id := s.connecting(ps, netip.MustParseAddrPort(line()), nil)
		require.Equal(t, "ready", line())
		kill()
		wantRefusal(s, id, false, nil)
		s.quiet()
	}
}

// The server is killed before it has accepted the client's connection from the backlog
// of its socket. The client is refused.
func TestServerKilledBeforeFetch(t *testing.T) {
	line, kill := startPeer(t, "server-tcp-no-fetch", "")
	s := newHostParty(t)
	dst := netip.MustParseAddrPort(line())
	require.Equal(t, "ready", line())
	id := s.connecting(cm.TCP, dst, nil)
	kill()
	wantRefusal(s, id, false, nil)
	s.quiet()
}

func TestServerKilled(t *testing.T) {
	line, kill := startPeer(t, "server-established", "")
	s := newHostParty(t)
	id := s.connecting(cm.TCP, netip.MustParseAddrPort(line()), nil)
	s.want(cm.Established, id)
	require.Equal(t, "ready", line())
	flood(t, id.QP())
	kill()
	gone := s.want(cm.Disconnected, id)
	require.Zero(t, gone.Status)
	require.ErrorIs(t, gone.Err, verbs.ErrPeerGone)
	wantFlushed(t, s.cq, 4)
	require.NoError(t, id.Disconnect())
	s.want(cm.TimewaitExit, id)
	s.quiet()
}

func TestClientKilled(t *testing.T) {
	s := newHostParty(t)
	l := s.listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := startPeer(t, "client-established", l.LocalAddr().String())
	id, _ := s.request(l)
	s.createQP(id)
	require.NoError(t, id.Accept(nil))
	s.want(cm.Established, id)
	require.Equal(t, "ready", line())
	flood(t, id.QP())
	kill()
	gone := s.want(cm.Disconnected, id)
	require.Zero(t, gone.Status)
	require.ErrorIs(t, gone.Err, verbs.ErrPeerGone)
	wantFlushed(t, s.cq, 4)
}

func TestClientKilledBeforeAccept(t *testing.T) {
	s := newHostParty(t)
	l := s.listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := startPeer(t, "client-connecting", l.LocalAddr().String())
	id, _ := s.request(l)
	require.Equal(t, "ready", line())
	kill()
	s.createQP(id)
	require.ErrorIs(t, id.Accept(nil), verbs.ErrPeerGone)
	s.quiet()
}

// wantFlushed waits for n failed completions.
func wantFlushed(t *testing.T, cq verbs.CQ, n int) {
	t.Helper()
	for _, wc := range completions(t, cq, n) {
		require.Contains(t, []verbs.Status{verbs.StatusRetryExcErr, verbs.StatusWRFlushErr}, wc.Status)
	}
}
