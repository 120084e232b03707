//go:build linux

package soft

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// wireParty returns a party on the wire path, with a UDP port that other tests do not
// use.
func wireParty(t *testing.T, port uint16, users ...uint32) *party {
	t.Helper()
	return openParty(t, &Config{Vectors: 1, Path: PathWire, WirePort: port, AllowedUsers: users})
}

// peerAddressOf returns the argument of a peer process: the address to connect to,
// and the UDP port.
func peerAddressOf(at netip.AddrPort, udpPort uint16) string {
	return fmt.Sprintf("%v %d", at, udpPort)
}

func parsePeerAddress(t *testing.T, s string) (at netip.AddrPort, udpPort uint16) {
	addr, port, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	return netip.MustParseAddrPort(addr), uint16(n)
}

// peerWireClient sends a connection request and a lookup on the wire path. It allows
// every user itself, and prints whether each request was accepted.
func peerWireClient(t *testing.T, address string) {
	at, port := parsePeerAddress(t, address)
	s := wireParty(t, port, AnyUser)
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		s.connectingFrom(ps, "127.67.1.9", at)
		ev := s.next()
		say(fmt.Sprint(ev.Type == cm.Established))
		require.NoError(t, ev.Ack())
	}
	linger()
}

// The listener on the wire path refuses a process of another user on this host, and
// the application does not see its requests.
func TestWireListenerRefusesUser(t *testing.T) {
	needsRoot(t)
	port := freePort(t)
	s := wireParty(t, port)
	l := s.listen(cm.TCP, "127.67.1.1:0", 0)
	lookups := s.listen(cm.UDP, l.LocalAddr().String(), 0)
	line, kill := startPeer(t, "wire-client", peerAddressOf(l.LocalAddr(), port))
	s.awaitCount("rcvd_user_err", 2)
	require.Equal(t, "false", line())
	require.Equal(t, "false", line())
	s.quiet()
	kill()
	require.NoError(t, lookups.Close())
}

// The listener on the wire path accepts a process of an allowed user.
func TestWireListenerAllowsUser(t *testing.T) {
	port := freePort(t)
	s := wireParty(t, port, peerUser)
	l := s.listen(cm.TCP, "127.67.1.1:0", 0)
	line, kill := startPeer(t, "wire-client", peerAddressOf(l.LocalAddr(), port))
	id, _ := s.request(l)
	s.createQP(id)
	require.NoError(t, id.Accept(nil))
	require.Equal(t, "true", line())
	kill()
}

// peerWireForger sends a request from an address of this host on which it does not
// have the UDP port of RoCE.
func peerWireForger(t *testing.T, address string) {
	sendForged(t, address, netip.MustParseAddr("127.67.1.10"))
}

// peerWireImpostor sends a request from another port of the listener's own address.
func peerWireImpostor(t *testing.T, address string) {
	at, _ := parsePeerAddress(t, address)
	sendForged(t, address, at.Addr())
}

// sendForged sends a connection request to address, from an address of this host and a
// UDP port that is not that of RoCE.
func sendForged(t *testing.T, address string, from netip.Addr) {
	at, port := parsePeerAddress(t, address)
	fd, err := openUDP(netip.AddrPortFrom(from, 0), false)
	require.NoError(t, err)
	local, err := socketName(fd)
	require.NoError(t, err)
	counts := counters{}
	socket := askingSocket{fd: fd, local: local, peerPort: port, counts: &counts}
	var m wire.MAD
	encodeREQ(&m, &requestMsg{endpoints: endpoints{src: netip.AddrPortFrom(from, 9), dst: at}, side: side{qpn: 99}, mtu: 3}, 1, 1)
	socket.send(&m, at.Addr())
	say("sent")
	linger()
}

// The listener drops a request from an address of this host on which no process has
// the UDP port of RoCE.
func TestWireListenerDropsForgedAddress(t *testing.T) {
	port := freePort(t)
	s := wireParty(t, port)
	l := s.listen(cm.TCP, "127.67.1.1:0", 0)
	line, kill := startPeer(t, "wire-forger", peerAddressOf(l.LocalAddr(), port))
	require.Equal(t, "sent", line())
	s.awaitCount("rcvd_user_err", 1)
	require.Equal(t, counted{"rcvd_user_err": 1, "rcvd_pkts": 1}, countsOf(t, s.p.dev))
	kill()
}

// The listener refuses a request that a process of another user has sent from an address
// on which an allowed process has the UDP port of RoCE.
func TestWireListenerRefusesImpostor(t *testing.T) {
	needsRoot(t)
	port := freePort(t)
	s := wireParty(t, port)
	l := s.listen(cm.TCP, "127.67.1.1:0", 0)
	line, kill := startPeer(t, "wire-impostor", peerAddressOf(l.LocalAddr(), port))
	require.Equal(t, "sent", line())
	s.awaitCount("rcvd_user_err", 1)
	s.quiet()
	kill()
}

// A listener drops a request if it has no descriptors to find out the user, because the
// peer repeats the request.
func TestWireListenerUnknownUser(t *testing.T) {
	s := wireParty(t, freePort(t))
	g := &wireGate{ch: s.tc, x: s.p.dev.mads}
	g.refuseUser(&newcomer{}, noResources(unix.EMFILE))
	require.Equal(t, counted{"cm_request_dropped": 1}, countsOf(t, s.p.dev))
}

// peerWireServer listens on the wire path, allows every user, and prints the address of
// the listener. It does not answer.
func peerWireServer(t *testing.T, address string) {
	at, port := parsePeerAddress(t, address)
	s := wireParty(t, port, AnyUser)
	l := s.listen(cm.TCP, at.String(), 0)
	say(l.LocalAddr().String())
	linger()
}

// A dial sends no request to a process of another user that has the UDP port of the
// address, and its error names the user.
func TestWireDialSkipsUser(t *testing.T) {
	needsRoot(t)
	port := freePort(t)
	line, kill := startPeer(t, "wire-server", peerAddressOf(netip.MustParseAddrPort("127.67.1.2:0"), port))
	at := netip.MustParseAddrPort(line())
	s := wireParty(t, port)
	id := s.resolvedFrom(cm.TCP, "127.67.1.3", at)
	s.createQP(id)
	require.NoError(t, id.Connect(&cm.ConnParam{PrivateData: []byte("secret")}))
	ev := s.next()
	require.ErrorIs(t, ev.Err, cm.ErrRefused)
	var user *cm.UserError
	require.ErrorAs(t, ev.Err, &user)
	require.Equal(t, cm.UserError{UID: peerUser, Name: fmt.Sprintf("UDP 127.67.1.2:%d", port)}, *user)
	require.NoError(t, ev.Ack())
	require.Equal(t, counted{"skipped_user_err": 1}, countsOf(t, s.p.dev), "nothing was sent")
	kill()
}

// Before a request is repeated, the user of the peer is checked again, because
// another process may have the port by then.
func TestWireDialChecksRepeats(t *testing.T) {
	w := newMADWorld(t)
	w.lose(wire.AttrREQ, math.MaxInt)
	at := netip.AddrPortFrom(serverAddr, 7)
	allowed, other := uint32(os.Geteuid()), uint32(77777)
	w.connecting(cm.TCP, at, nil)
	w.holders = func() []uint32 { return []uint32{allowed, other} }
	w.await(w.client)
	ev := w.client.next()
	var user *cm.UserError
	require.ErrorAs(t, ev.Err, &user)
	require.Equal(t, other, user.UID)
	require.NoError(t, ev.Ack())
	require.Len(t, w.sent, 1, "nothing was sent after the first request")

	w.holders = func() []uint32 { return nil }
	w.connecting(cm.TCP, at, nil)
	w.await(w.client)
	ev = w.client.next()
	require.ErrorIs(t, ev.Err, unix.ECONNREFUSED)
	require.NoError(t, ev.Ack())
	require.Len(t, w.sent, 1, "nothing is sent where nobody is")
	w.quiet()
}
