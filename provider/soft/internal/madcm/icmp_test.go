//go:build linux

package madcm

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/nettest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// wantPortUnreachable requires the event that reports a closed UDP port.
func wantPortUnreachable(s *party, id *cm.ID) {
	s.T.Helper()
	ev := s.Want(cm.Unreachable, id)
	require.Equal(s.T, connmgr.StatusRefused, ev.Status)
	require.ErrorIs(s.T, ev.Err, unix.ECONNREFUSED)
	require.ErrorIs(s.T, ev.Err, cm.ErrRefused)
	require.NotErrorIs(s.T, ev.Err, cm.ErrTimedOut)
	require.ErrorContains(s.T, ev.Err, "no process has UDP port")
	want := verbs.StateError
	if id.PortSpace() == cm.UDP {
		want = verbs.StateRTS
	}
	require.Equal(s.T, want, id.QP().State())
}

func unreadable(t *testing.T, fd int) {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	require.Zero(t, n)
}

// dialClosedPort connects twice to a closed UDP port. The event must come long before the
// timeout.
func dialClosedPort(t *testing.T, ps cm.PortSpace, from, to string) {
	t.Helper()
	require.Less(t, safety, connmgr.SIDRTimeout)
	s := openParty(t, &Config{Port: freeport.UDP(t)})
	// The two requests use the same socket. The ICMP error of the first request arrives
	// before the second request is sent.
	for range 2 {
		wantPortUnreachable(s, s.ConnectingFrom(ps, from, netip.AddrPortFrom(netip.MustParseAddr(to), 7)))
		s.Quiet()
		unreadable(t, s.TC.FD())
	}
	require.Zero(t, s.Counted()["send_err"])
}

func TestDialClosedPort(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) { dialClosedPort(t, ps, "127.9.2.1", "127.9.2.2") })
}

// The test adds the two IPv6 addresses that it needs, in a network namespace of its own.
func TestDialClosedPortIPv6(t *testing.T) { peerproc.InNetworkNamespace(t, "closed-port-ipv6") }

func peerClosedPortIPv6(t *testing.T, _ string) {
	nettest.AddHostAddrs(t, "fd00::1", "fd00::2")
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) { dialClosedPort(t, ps, "fd00::1", "fd00::2") })
}

// A RequestSocket sends requests to several peers. An ICMP error from one peer ends only
// the request to this peer.
func TestPortUnreachableAffectsOneRequest(t *testing.T) {
	cfg := &Config{Port: freeport.UDP(t)}
	client, server := openParty(t, cfg), openParty(t, cfg)
	l := server.Listen(cm.TCP, "127.9.2.3:0", 0)
	open := client.ConnectingFrom(cm.TCP, "127.9.2.1", l.LocalAddr())
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, open)
	server.Want(cm.Established, passive)

	waiting := client.ConnectingFrom(cm.TCP, "127.9.2.1", l.LocalAddr())
	late, _ := server.Request(l)
	for range 10 {
		wantPortUnreachable(client, client.ConnectingFrom(cm.TCP, "127.9.2.1", netip.MustParseAddrPort("127.9.2.2:7")))
		cmtest.Exchange(t, client.Party, open.QP(), server.Party, passive.QP())
	}
	server.CreateQP(late)
	require.NoError(t, late.Accept(nil))
	client.Want(cm.Established, waiting)
	server.Want(cm.Established, late)
	cmtest.Exchange(t, client.Party, waiting.QP(), server.Party, late.QP())
	require.Zero(t, client.Counted()["send_err"])
	cmside.Disconnect(client.Side, open, server.Side, passive)
	cmside.Disconnect(client.Side, waiting, server.Side, late)
	client.Quiet()
	server.Quiet()
}

// After the ID has migrated, its new channel handles the ICMP error.
func TestPortUnreachableAfterMigrate(t *testing.T) {
	s := openParty(t, &Config{Port: freeport.UDP(t)})
	id := s.ConnectingFrom(cm.TCP, "127.9.2.1", netip.MustParseAddrPort("127.9.2.2:7"))
	other, err := cm.OpenChannel(s.Party)
	require.NoError(t, err)
	before := s.Channel
	require.NoError(t, id.Migrate(other))
	s.Channel = other
	t.Cleanup(func() { require.NoError(t, before.Close()) })
	wantPortUnreachable(s, id)
	unreadable(t, before.FD())
}

// A datagram that is sent to the port of a RequestSocket does not make the channel's
// descriptor readable.
func TestRequestSocketReceivesNothing(t *testing.T) {
	s := openParty(t, &Config{Port: freeport.UDP(t)})
	silent, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.9.2.2"), s.mux.Port)))
	require.NoError(t, err)
	defer silent.Close()
	id := s.ConnectingFrom(cm.TCP, "127.9.2.1", netip.MustParseAddrPort("127.9.2.2:7"))
	asking := s.mux.ports[id.LocalAddr().Addr()].requests.Load().socket
	for range 1000 {
		_, err = silent.WriteToUDPAddrPort(make([]byte, 1000), asking.local)
		require.NoError(t, err)
	}
	s.Quiet()
	unreadable(t, s.TC.FD())
	n, _, err := unix.Recvfrom(asking.fd, make([]byte, 2000), unix.MSG_DONTWAIT)
	require.ErrorIs(t, err, unix.EAGAIN, "%d bytes", n)
}

// refused passes an ICMP error to the client. The error says that the UDP port of a
// request to dst is unreachable. The parameter quoted is the part of the request that the
// error quotes.
func (w *madSim) refused(dst netip.Addr, quoted []byte) {
	mux := w.client.mux
	mux.mu.Lock()
	mux.onPortUnreachable(mux.ports[clientAddr], netip.AddrPortFrom(dst, 4791), quoted)
	mux.mu.Unlock()
	w.settle()
}

// quoted returns the part of a message that an ICMP error quotes.
func quoted(m *wire.MAD) []byte { return Packet(make([]byte, PacketSize), m, 0).Bytes() }

// An ICMP error ends only the request that it quotes.
func TestForgedPortUnreachable(t *testing.T) {
	w := newMADSim(t)
	var sent wire.MAD
	w.copies = func(m *wire.MAD, _ netip.Addr) int { sent = *m; return 1 }
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	request := sent
	change := func(change func(m *wire.MAD)) []byte {
		m := request
		change(&m)
		return quoted(&m)
	}
	for what, forged := range map[string]struct {
		dst   netip.Addr
		quote []byte
	}{
		"another connection":  {serverAddr, change(func(m *wire.MAD) { m[wire.MADDataOffset] ^= 1 })},
		"another transaction": {serverAddr, change(func(m *wire.MAD) { binary.BigEndian.PutUint64(m[8:], m.TID()+1) })},
		"another message":     {serverAddr, change(func(m *wire.MAD) { binary.BigEndian.PutUint16(m[16:], uint16(wire.AttrDREQ)) })},
		"another host":        {clientAddr, quoted(&request)},
		"no quote":            {serverAddr, nil},
	} {
		w.refused(forged.dst, forged.quote)
		require.Equal(t, cm.StateConnecting, active.State(), what)
		w.client.Quiet()
	}
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)

	// An ICMP error does not end an established connection.
	w.refused(serverAddr, quoted(&request))
	w.refused(serverAddr, nil)
	w.client.Quiet()
	cmtest.Exchange(t, w.client.Party, active.QP(), w.server.Party, passive.QP())
	w.disconnected(active, passive)
	w.quiet()
}

// An ICMP error is ignored if it quotes too little of the request to identify it.
func TestPartlyQuotedPortUnreachable(t *testing.T) {
	w := newMADSim(t)
	var sent wire.MAD
	w.copies = func(m *wire.MAD, _ netip.Addr) int { sent = *m; return 0 }
	active := w.connecting(cm.TCP, netip.AddrPortFrom(serverAddr, 7), nil)
	quote := quoted(&sent)[:wire.BTHSize+wire.DETHSize+wire.MADDataOffset+4]
	for n := range quote {
		w.refused(serverAddr, quote[:n])
		w.client.Quiet()
	}
	w.refused(serverAddr, quote)
	wantPortUnreachable(w.client, active)
	w.quiet()
}

// isPortUnreachable returns true only for ICMP errors that report an unreachable port.
func TestPortUnreachable(t *testing.T) {
	for _, c := range []struct {
		level, option, origin, kind, code byte
		want                              bool
	}{
		{unix.IPPROTO_IP, unix.IP_RECVERR, unix.SO_EE_ORIGIN_ICMP, 3, 3, true},
		{unix.IPPROTO_IP, unix.IP_RECVERR, unix.SO_EE_ORIGIN_ICMP, 3, 1, false},
		{unix.IPPROTO_IP, unix.IP_RECVERR, unix.SO_EE_ORIGIN_ICMP, 3, 4, false},
		{unix.IPPROTO_IP, unix.IP_RECVERR, unix.SO_EE_ORIGIN_ICMP, 11, 3, false},
		{unix.IPPROTO_IP, unix.IP_RECVERR, unix.SO_EE_ORIGIN_LOCAL, 3, 3, false},
		{unix.IPPROTO_IP, unix.IP_TTL, unix.SO_EE_ORIGIN_ICMP, 3, 3, false},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, unix.SO_EE_ORIGIN_ICMP6, 1, 4, true},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, unix.SO_EE_ORIGIN_ICMP6, 1, 3, false},
		{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, unix.SO_EE_ORIGIN_ICMP6, 3, 3, false},
	} {
		control := errorControl(c.level, c.option, []byte{0, 0, 0, 0, c.origin, c.kind, c.code, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		require.Equal(t, c.want, isPortUnreachable(control), "%+v", c)
		require.False(t, isPortUnreachable(control[:len(control)-8]))
	}
	require.False(t, isPortUnreachable(nil))
}

// errorControl returns a control message with an ICMP error (cmsg(3)).
func errorControl(level, option byte, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	header := unix.SizeofCmsghdr
	word := header - 8
	if word == 8 {
		binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(unix.CmsgLen(len(data))))
	}
	binary.NativeEndian.PutUint32(b[word:], uint32(level))
	binary.NativeEndian.PutUint32(b[word+4:], uint32(option))
	copy(b[header:], data)
	return b
}

// FuzzRefusal checks that no quoted data and no control message causes a panic.
func FuzzRefusal(f *testing.F) {
	var m wire.MAD
	r := wire.REQ{LocalID: 7}
	r.Encode(&m, 9)
	f.Add(quoted(&m), errorControl(unix.IPPROTO_IP, unix.IP_RECVERR, make([]byte, 16)))
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, quoted, control []byte) {
		isPortUnreachable(control)
		if q, ok := quoteOf(quoted); ok {
			const id = wire.BTHSize + wire.DETHSize + wire.MADDataOffset
			require.Equal(t, binary.BigEndian.Uint32(quoted[id:]), q.id)
		}
	})
}
