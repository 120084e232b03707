//go:build linux

package unixcm

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// dialNamed connects a new socket to the listener l. If the parameter name is not empty,
// the socket is bound to that name first. The parameter src is the source address in the
// requests of the rawPeer. Both are passed to withTestPorts.
func dialNamed(t *testing.T, l *cm.ID, name, src string) *rawPeer {
	t.Helper()
	fd, err := unixsock.New()
	require.NoError(t, err)
	r := newRawPeer(t, fd)
	r.src = netip.MustParseAddrPort(withTestPorts(src))
	if name != "" {
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: withTestPorts(name)}))
	}
	r.connect(l)
	return r
}

func (r *rawPeer) ask(l *cm.ID, dst netip.AddrPort) {
	r.t.Helper()
	var m connmgr.Message = &connmgr.SIDRREQ{Endpoints: connmgr.Endpoints{Src: r.src, Dst: dst}}
	if l.PortSpace() == cm.TCP {
		m = &connmgr.REQ{Endpoints: connmgr.Endpoints{Src: r.src, Dst: dst}, QPParams: connmgr.QPParams{QPN: 5}}
	}
	r.send(encode(m))
}

func (r *rawPeer) answer() connmgr.Message {
	r.t.Helper()
	var packet [maxMessage]byte
	n, _, err := unixsock.Receive(r.fd, packet[:], 0)
	require.NoError(r.t, err)
	m, err := decode(packet[:n])
	require.NoError(r.t, err)
	return m
}

func wantForgery(t *testing.T, server *party, r *rawPeer, ps cm.PortSpace) {
	t.Helper()
	before := server.Counted()["rcvd_address_err"]
	server.Quiet()
	require.Equal(t, before+1, server.Counted()["rcvd_address_err"])
	if ps == cm.TCP {
		require.Equal(t, &connmgr.REJ{Reason: cm.RejectInvalidGID, Private: []byte{}}, r.answer())
	} else {
		require.Equal(t, &connmgr.SIDRREP{Status: cm.SIDRReject, Private: []byte{}}, r.answer())
	}
	require.True(t, r.closedByPeer())
	require.Empty(t, listenerOf(server).clients)
	r.close()
}

// The listener refuses a request if the name of the client's socket does not reserve the
// source address in the request.
func TestForgedSource(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		own, other := "@rdmaloop/1/"+ps.String(), "@rdmaloop/1/udp"
		if ps == cm.UDP {
			other = "@rdmaloop/1/tcp"
		}
		for name, c := range map[string]struct{ name, src string }{
			"an address of another host":        {own + "/203.0.113.7/PORT", "203.0.113.7:PORT"},
			"another host, and no name":         {"", "203.0.113.7:PORT"},
			"a broadcast address":               {own + "/255.255.255.255/PORT", "255.255.255.255:PORT"},
			"no name":                           {"", "127.0.0.1:PORT"},
			"another port":                      {own + "/127.0.0.1/NEXT", "127.0.0.1:PORT"},
			"another address":                   {own + "/127.0.0.2/PORT", "127.0.0.1:PORT"},
			"the wildcard of another family":    {own + "/*6only/PORT", "127.0.0.1:PORT"},
			"another port space":                {other + "/127.0.0.1/PORT", "127.0.0.1:PORT"},
			"a name of another kind":            {"@elsewhere/PORT", "127.0.0.1:PORT"},
			"the name with a zero byte":         {own + "/127.0.0.1/PORT\x00", "127.0.0.1:PORT"},
			"the name, a zero byte, and more":   {own + "/127.0.0.1/PORT\x00/shared/2", "127.0.0.1:PORT"},
			"a shared wildcard of another port": {own + "/*4/NEXT/shared/9", "127.0.0.1:PORT"},
		} {
			t.Run(name, func(t *testing.T) {
				server := newParty(t)
				l := server.Listen(ps, "127.0.0.1:0", 0)
				r := dialNamed(t, l, c.name, c.src)
				r.ask(l, l.LocalAddr())
				wantForgery(t, server, r, ps)
			})
		}
	})
}

// The listener refuses a request whose destination is an address of another host.
func TestForgedDestination(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		server := newParty(t)
		l := server.Listen(ps, "0.0.0.0:0", 0)
		r := dialNamed(t, l, "@rdmaloop/1/"+ps.String()+"/127.0.0.1/PORT", "127.0.0.1:PORT")
		r.ask(l, netip.AddrPortFrom(netip.MustParseAddr("203.0.113.7"), l.LocalAddr().Port()))
		wantForgery(t, server, r, ps)
	})
}

// The listener accepts a request if the name of the client's socket reserves the source
// port, either for the source address or for a wildcard that covers it. The client may
// share the port with other sockets.
func TestSource(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		for _, name := range []string{"127.0.0.1/PORT", "*4/PORT", "*6/PORT", "127.0.0.1/PORT/shared/9", "*4/PORT/shared/9", "*6/PORT/shared/9"} {
			server := newParty(t)
			l := server.Listen(ps, "127.0.0.1:0", 0)
			r := dialNamed(t, l, "@rdmaloop/1/"+ps.String()+"/"+name, "127.0.0.1:PORT")
			r.ask(l, l.LocalAddr())
			passive, _ := server.Request(l)
			require.Equal(t, r.src, passive.RemoteAddr())
			r.close()
			require.Empty(t, server.Counted())
		}
	})
}

// The client's socket shares its source port. The listener refuses the client if another
// socket is bound to the same port at an overlapping address, and does not share the
// port. There is one exception: the other socket listens, and belongs to the client's
// user.
func TestSharedSource(t *testing.T) {
	const src = "127.0.0.1:PORT"
	for _, c := range []struct {
		name   string
		holder string
		listen bool
		want   bool
	}{
		{"nobody holds the port", "", false, true},
		{"an ID of the address", "@rdmaloop/1/tcp/127.0.0.1/PORT", false, false},
		{"an ID of the wildcard", "@rdmaloop/1/tcp/*4/PORT", false, false},
		{"a listener of the same user", "@rdmaloop/1/tcp/127.0.0.1/PORT", true, true},
		{"a listener of the same user on the wildcard", "@rdmaloop/1/tcp/*6/PORT", true, true},
		{"an ID of another address", "@rdmaloop/1/tcp/127.0.0.2/PORT", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newParty(t)
			l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
			if c.holder != "" {
				fd, err := unixsock.Bind(withTestPorts(c.holder))
				require.NoError(t, err)
				defer unix.Close(fd)
				if c.listen {
					require.NoError(t, unix.Listen(fd, 1))
				}
			}
			r := dialNamed(t, l, "@rdmaloop/1/tcp/127.0.0.1/PORT/shared/9", src)
			r.ask(l, l.LocalAddr())
			if !c.want {
				wantForgery(t, server, r, cm.TCP)
				return
			}
			passive, _ := server.Request(l)
			require.Equal(t, withTestPorts(src), passive.RemoteAddr().String())
			r.close()
		})
	}
}

// wantNoRoom requires that the rawPeer was refused for lack of resources. The given
// counter must be 1, and all other counters 0.
func wantNoRoom(t *testing.T, server *party, r *rawPeer, ps cm.PortSpace, counter string) {
	t.Helper()
	server.Quiet()
	if ps == cm.TCP {
		require.Equal(t, &connmgr.REJ{Reason: cm.RejectNoResources, Private: []byte{}}, r.answer())
	} else {
		require.Equal(t, &connmgr.SIDRREP{Status: cm.SIDRNoQP, Private: []byte{}}, r.answer())
	}
	require.Equal(t, cmtest.Counted{counter: 1}, server.Counted())
}

// A client that shares its source port is refused if another process listens on this
// port with a full backlog. The user of that process is not known.
func TestSharedSourceOfBusyListener(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		name := withTestPorts("@rdmaloop/1/" + ps.String() + "/127.0.0.1/PORT")
		busy, err := unixsock.Bind(name)
		require.NoError(t, err)
		defer unix.Close(busy)
		require.NoError(t, unix.Listen(busy, 0))
		for err == nil {
			fd, socketErr := unixsock.New()
			require.NoError(t, socketErr)
			defer unix.Close(fd)
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		}
		require.ErrorIs(t, err, unix.EAGAIN)

		server := newParty(t)
		l := server.Listen(ps, "127.0.0.1:0", 0)
		r := dialNamed(t, l, name+"/shared/9", "127.0.0.1:PORT")
		r.ask(l, l.LocalAddr())
		wantNoRoom(t, server, r, ps, "rcvd_address_err")
		r.close()
	})
}

// peerUncheckedSource runs a server that has enough descriptors to admit a client, but
// not enough to check the source address of its request.
func peerUncheckedSource(t *testing.T, address string) {
	ps, name, src := cm.TCP, "@rdmaloop/1/tcp/127.0.0.1/PORT/shared/9", "127.0.0.1:PORT"
	switch address {
	case "UDP":
		ps, name = cm.UDP, "@rdmaloop/1/udp/127.0.0.1/PORT/shared/9"
	case "host":
		name, src = "@rdmaloop/1/tcp/203.0.113.7/PORT", "203.0.113.7:PORT"
	}
	server := newParty(t)
	l := server.Listen(ps, "127.0.0.1:0", 0)
	r := dialNamed(t, l, name, src)
	r.ask(l, l.LocalAddr())
	taken := peerproc.ExhaustDescriptors(t)
	_, err := unixsock.IsBound("@rdmaloop/test/unknown")
	require.ErrorIs(t, err, verbs.ErrNoResources)
	// The server opens two descriptors for the client: its socket and admission.spare.
	unixsock.CloseAll(taken[:2])
	wantNoRoom(t, server, r, ps, "no_descriptors_err")
	peerproc.Say("refused")
	peerproc.Linger()
}

// If no descriptor is free to check the source address, the server refuses the request
// with RejectNoResources. It counts a lack of descriptors, and not a wrong address.
func TestSourceOutOfDescriptors(t *testing.T) {
	for _, c := range []string{"TCP", "UDP", "host"} {
		t.Run(c, func(t *testing.T) {
			line, kill := peerproc.Start(t, "unchecked-source", c)
			require.Equal(t, "refused", line())
			kill()
		})
	}
}

// A client that shares its source port is refused if a process of another user listens
// on this port.
func TestSharedSourceOfForeignListener(t *testing.T) {
	peerproc.NeedsRoot(t)
	server := newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := peerproc.Start(t, "squat-accepting", withTestPorts("@rdmaloop/1/tcp/127.0.0.1/PORT"))
	defer kill()
	require.Equal(t, "squatting", line())
	r := dialNamed(t, l, "@rdmaloop/1/tcp/127.0.0.1/PORT/shared/9", "127.0.0.1:PORT")
	r.ask(l, l.LocalAddr())
	wantForgery(t, server, r, cm.TCP)
}

// PeerName returns only abstract names. It never returns the path of a socket.
func TestPeerName(t *testing.T) {
	pair := func(bind string) (accepted int) {
		t.Helper()
		at := &unix.SockaddrUnix{Name: withTestPorts("@rdmaloop/test/peer-name/PORT")}
		listener, err := unixsock.Bind(at.Name)
		require.NoError(t, err)
		defer unix.Close(listener)
		require.NoError(t, unix.Listen(listener, 1))
		client, err := unixsock.New()
		require.NoError(t, err)
		defer unix.Close(client)
		if bind != "" {
			require.NoError(t, unix.Bind(client, &unix.SockaddrUnix{Name: bind}))
		}
		require.NoError(t, unix.Connect(client, at))
		accepted, err = unixsock.Accept(listener)
		require.NoError(t, err)
		return accepted
	}
	for _, c := range []struct {
		bind, want string
		ok         bool
	}{
		{withTestPorts("@PORT"), withTestPorts("@PORT"), true},
		{withTestPorts("@PORT\x00"), withTestPorts("@PORT\x00"), true},
		{"", "", false},
		{filepath.Join(t.TempDir(), "@socket"), "", false},
	} {
		fd := pair(c.bind)
		name, ok := unixsock.PeerName(fd)
		require.NoError(t, unix.Close(fd))
		require.Equal(t, c.ok, ok)
		require.Equal(t, c.want, name)
	}
	_, ok := unixsock.PeerName(int(os.Stdin.Fd()))
	require.False(t, ok)
}

// peerUnknownHost runs in a process without free descriptors. The process can not find
// out whether an address is local.
func peerUnknownHost(t *testing.T, _ string) {
	s := newParty(t)
	a := netip.MustParseAddr("203.0.113.7")
	peerproc.ExhaustDescriptors(t)
	_, err := s.TC.IsLocalAddr(a)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	peerproc.Say("done")
	peerproc.Linger()
}

// A process without free descriptors gets an error when it tries to find out whether an
// address is local.
func TestOnThisHostOutOfDescriptors(t *testing.T) {
	line, kill := peerproc.Start(t, "unknown-host", "")
	require.Equal(t, "done", line())
	kill()
}
