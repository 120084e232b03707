//go:build linux

package unixcm

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/nettest"
)

// reaches connects to an address, and requires that the listener l gets the request.
func reaches(client, server *party, l *cm.ID, dst netip.AddrPort) {
	client.T.Helper()
	active := client.Connecting(l.PortSpace(), dst, nil)
	passive, _ := server.Request(l)
	require.Equal(client.T, dst, passive.LocalAddr())
	require.NoError(client.T, passive.Reject(nil))
	client.WantRefusal(active, true, nil)
	client.End(active)
	server.End(passive)
}

// refuses connects to an address, and requires an event that says that no process listens
// at this address.
func refuses(client *party, dst netip.AddrPort) {
	client.T.Helper()
	active := client.Connecting(cm.TCP, dst, nil)
	client.WantRejected(active, cm.RejectInvalidServiceID, false, nil)
}

// A listener at an address gets requests for this address only.
func TestListenOnAddresses(t *testing.T) {
	client, server := newParty(t), newParty(t)
	one := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	two := server.Listen(cm.TCP, at("127.0.0.2", one).String(), 0)
	reaches(client, server, one, one.LocalAddr())
	reaches(client, server, two, two.LocalAddr())
	refuses(client, at("127.0.0.3", one))
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		other := server.Listen(ps, "127.0.0.9:0", 0)
		reaches(client, server, other, other.LocalAddr())
	})
}

// A wildcard listener gets requests for all addresses of the host.
func TestListenOnWildcard(t *testing.T) {
	client, server := newParty(t), newParty(t)
	any4 := server.Listen(cm.TCP, "0.0.0.0:0", 0)
	any6 := server.Listen(cm.TCP, "[::]:0", 0)
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	tried := []netip.Addr{netip.MustParseAddr("127.255.0.1")}
	for _, a := range addrs {
		addr := netip.MustParsePrefix(a.String()).Addr()
		// The loop skips link-local addresses, because they need a zone.
		if !addr.IsLinkLocalUnicast() && nettest.IsLocal(t, addr) {
			tried = append(tried, addr)
		}
	}
	for _, addr := range tried {
		reaches(client, server, any6, netip.AddrPortFrom(addr, any6.LocalAddr().Port()))
		to4 := netip.AddrPortFrom(addr, any4.LocalAddr().Port())
		if addr.Is4() {
			reaches(client, server, any4, to4)
		} else {
			refuses(client, to4)
		}
	}
}

func TestListenAFOnly(t *testing.T) {
	needAddr(t, "::1")
	s := newParty(t)
	l := s.ID(cm.TCP)
	require.NoError(t, l.SetAFOnly(true))
	require.NoError(t, l.Bind(netip.MustParseAddrPort("[::]:0")))
	require.NoError(t, l.Listen(0))
	reaches(s, s, l, at("::1", l))
	refuses(s, at("127.0.0.1", l))
}

// Bind and ResolveAddr need a link-local address with a zone. The addresses in requests
// have no zone.
func TestLinkLocal(t *testing.T) {
	s := newParty(t)
	l := s.Listen(cm.TCP, netip.AddrPortFrom(linkLocal(t), 0).String(), 0)
	active := s.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := s.Request(l)
	require.Equal(t, l.LocalAddr().Addr().WithZone(""), passive.LocalAddr().Addr())
	require.NoError(t, passive.Reject(nil))
	s.WantRefusal(active, true, nil)
}

func linkLocal(t *testing.T) netip.Addr {
	t.Helper()
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addrs {
			if addr := netip.MustParsePrefix(a.String()).Addr(); addr.Is6() && addr.IsLinkLocalUnicast() && nettest.IsLocal(t, addr.WithZone(i.Name)) {
				return addr.WithZone(i.Name)
			}
		}
	}
	t.Skip("this host has no link-local address")
	return netip.Addr{}
}

// An IPv4-mapped IPv6 address is treated as the IPv4 address.
func TestMappedAddress(t *testing.T) {
	s := newParty(t)
	l := s.Listen(cm.TCP, "[::ffff:127.0.0.5]:0", 0)
	require.Equal(t, "127.0.0.5", l.LocalAddr().Addr().String())
	reaches(s, s, l, at("127.0.0.5", l))
}

// If the ID is bound to a wildcard, ResolveAddr replaces the wildcard with the source
// address.
func TestConnectFromWildcard(t *testing.T) {
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	id := s.ID(cm.TCP)
	require.NoError(t, id.Bind(netip.MustParseAddrPort("0.0.0.0:0")))
	port := id.LocalAddr().Port()
	s.Resolve(id, l.LocalAddr())
	require.Equal(t, at("127.0.0.1", id), id.LocalAddr())
	require.Equal(t, port, id.LocalAddr().Port())
	s.CreateQP(id)
	require.NoError(t, id.Connect(nil))
	passive, _ := s.Request(l)
	require.Equal(t, id.LocalAddr(), passive.RemoteAddr())
}

// Requests beyond the backlog wait until earlier requests are fetched.
func TestBacklogWaits(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 1)
	var ids [4]*cm.ID
	for i := range ids {
		ids[i] = client.Connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{PrivateData: []byte{byte(i)}})
	}
	for i := range ids {
		passive, ev := server.Request(l)
		require.Equal(t, []byte{byte(i)}, ev.Param.PrivateData)
		client.Quiet()
		require.NoError(t, passive.Reject(nil))
		client.WantRefusal(ids[i], true, nil)
	}
}

// The backlog limits the requests that the application has not fetched. A fetched
// request does not count.
func TestBacklogCountsUnfetched(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 2)
	for range 4 {
		client.Connecting(cm.TCP, l.LocalAddr(), nil)
	}
	g := listenerOf(server)
	// The listener has received two requests. The application has fetched one of them.
	server.Request(l)
	require.Equal(t, 1, server.TC.Probe().Unfetched(g.id))
	require.True(t, g.accepting)
	server.Request(l)
	server.Request(l)
	server.Request(l)
	require.Zero(t, server.TC.Probe().Unfetched(g.id))
	server.Quiet()
}

// A SIDR request is refused at once if the backlog is full.
func TestBacklogRefusesLookups(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.UDP, "127.0.0.1:0", 1)
	first := client.Connecting(cm.UDP, l.LocalAddr(), nil)
	second := client.Connecting(cm.UDP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	client.WantUnreachable(second, cm.SIDRReject, false, nil)
	require.NoError(t, passive.Reject(nil))
	client.WantUnreachable(first, cm.SIDRReject, true, nil)
}

func handlersOf(ch *connmgr.Channel) (all []fdevent.Handler) {
	// The limit is larger than the number of any descriptor in a test.
	for fd := range 1 << 12 {
		if h := ch.Probe().Handler(fd); h != nil {
			all = append(all, h)
		}
	}
	return all
}

// listenerOf returns the only listener of the party.
func listenerOf(s *party) *listener {
	for _, src := range handlersOf(s.TC) {
		if g, ok := src.(*listener); ok {
			return g
		}
	}
	return nil
}

// If the backlog of the listening socket is full, the client repeats the attempt until
// the listener accepts the client.
func TestSystemBacklog(t *testing.T) {
	client, server := newParty(t), newParty(t)
	clock := cmtest.UseClock(client.TC)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 8)
	require.NoError(t, unix.Listen(listenerOf(server).fd, 0))
	first := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	lent := []byte("hello")
	second := client.Connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{PrivateData: lent})
	third := client.Connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{PrivateData: lent})
	// Connect has copied the private data, so the requests keep it.
	clear(lent)
	passive, _ := server.Request(l)
	require.Equal(t, first.LocalAddr(), passive.RemoteAddr())
	server.Quiet()

	clock.Advance(redialInterval)
	client.Quiet()
	passive, ev := server.Request(l)
	require.Contains(t, []netip.AddrPort{second.LocalAddr(), third.LocalAddr()}, passive.RemoteAddr())
	require.Equal(t, "hello", string(ev.Param.PrivateData))
	server.Quiet()

	// All clients time out, because the server answers no request.
	clock.Advance(connmgr.MaxServiceTime)
	for range 3 {
		ev := client.Next()
		require.Equal(t, cm.Unreachable, ev.Type)
		require.Equal(t, connmgr.StatusTimedOut, ev.Status)
		require.NoError(t, ev.Ack())
	}
}

// If no descriptor is free, the listener stops accepting clients. When it continues, it
// accepts the client that has waited.
func TestOutOfDescriptors(t *testing.T) {
	client, server := newParty(t), newParty(t)
	clock := cmtest.UseClock(server.TC)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	server.Quiet()
	paused := listenerOf(server) == nil
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.True(t, paused, "the listener does not watch its socket")

	clock.Advance(pauseTime)
	server.Quiet() // The channel watches the listening socket again.
	passive, _ := server.Request(l)
	require.Equal(t, active.LocalAddr(), passive.RemoteAddr())
}

// When too many clients have sent no request, the listener closes the oldest client of
// the user with the most clients.
func TestBusiestUsersOldestIsClosed(t *testing.T) {
	g := &listener{}
	add := func(uid uint32) *client {
		c := &client{conn: conn{peer: cm.Credentials{UID: uid}}}
		g.clients = append(g.clients, c)
		return c
	}
	first := add(1)
	busy := add(2)
	add(3)
	require.Same(t, first, g.oldestOfBusiest(4), "all users have one client")
	add(2)
	require.Same(t, busy, g.oldestOfBusiest(4))
	require.Same(t, first, g.oldestOfBusiest(1), "both users have two clients with the new one")
	add(3)
	require.Same(t, g.clients[2], g.oldestOfBusiest(3))
}

// peerNoDescriptors runs in a process without free descriptors. It calls OnReady of a
// listener that has no client waiting.
func peerNoDescriptors(t *testing.T, _ string) {
	s := newParty(t)
	s.Listen(cm.TCP, "127.0.0.1:0", 0)
	peerproc.ExhaustDescriptors(t)
	requireSpare(t, s)
	looked := 0
	for _, w := range handlersOf(s.TC) {
		if g, ok := w.(*listener); ok {
			g.OnReady(g.fd, unix.EPOLLIN)
			looked++
		}
	}
	require.Equal(t, 1, looked)
	requireSpare(t, s)
	peerproc.Say("done")
	peerproc.Linger()
}

// If no descriptor is free, the process closes its spare descriptors to accept a client.
// OnReady opens them again when no other client waits.
func TestSpareDescriptorsAreOpenedAgain(t *testing.T) {
	line, kill := peerproc.Start(t, "no-descriptors", "")
	require.Equal(t, "done", line())
	kill()
}

// requireSpare requires that this process has no free descriptor, and that all spare
// descriptors of the party are open.
func requireSpare(t *testing.T, s *party) {
	t.Helper()
	_, err := fdevent.NewEvent()
	require.ErrorIs(t, err, unix.EMFILE)
	require.True(t, s.unix.Spare.Fill())
}
