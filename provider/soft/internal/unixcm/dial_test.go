//go:build linux

package unixcm

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A squatter is a process of another user that binds names of the server. Its argument is
// the list of the names, separated by commas.

// squat binds a socket to each name, and calls prepare with each socket.
func squat(t *testing.T, names string, prepare func(fd int)) {
	for name := range strings.SplitSeq(names, ",") {
		fd, err := unixsock.Bind(name)
		require.NoError(t, err)
		prepare(fd)
	}
	peerproc.Say("squatting")
}

func squatListening(t *testing.T, fd int) { require.NoError(t, unix.Listen(fd, 16)) }

// squatAccepting listens on the names, and accepts the clients of the last name. For each
// client, it prints the number of bytes that the client has sent.
func squatAccepting(t *testing.T, names string) {
	var listener int
	squat(t, names, func(fd int) { listener = fd; squatListening(t, fd) })
	for {
		cmside.AwaitReadable(t, listener)
		fd, err := unixsock.Accept(listener)
		require.NoError(t, err)
		cmside.AwaitReadable(t, fd)
		n, err := unix.Read(fd, make([]byte, maxMessage))
		require.NoError(t, err)
		peerproc.Say(strconv.Itoa(n) + " bytes")
	}
}

// squatFull listens on the names until the backlogs are full. It accepts no client.
func squatFull(t *testing.T, names string) {
	squat(t, names, func(fd int) {
		require.NoError(t, unix.Listen(fd, 0))
		name, err := unix.Getsockname(fd)
		require.NoError(t, err)
		for err == nil {
			var client int
			client, err = unixsock.New()
			require.NoError(t, err)
			err = unix.Connect(client, name)
		}
		require.ErrorIs(t, err, unix.EAGAIN)
	})
	peerproc.Linger()
}

// squatBound binds a socket to each of the names. The sockets do not listen.
func squatBound(t *testing.T, names string) {
	squat(t, names, func(int) {})
	peerproc.Linger()
}

// squatted returns the address 127.0.0.1 with the port of l, and the name of a listening
// socket at this address.
func squatted(l *cm.ID) (at netip.AddrPort, name string) {
	at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), l.LocalAddr().Port())
	return at, hostport.New(nil).NewBindAddr(l.PortSpace(), at, false).Name()
}

// wantConnected accepts the request of an active ID, and waits until both sides are
// connected.
func wantConnected(client *party, active *cm.ID, server *party, l *cm.ID) (passive *cm.ID) {
	client.T.Helper()
	passive, _ = server.Request(l)
	require.Equal(client.T, active.LocalAddr(), passive.RemoteAddr())
	if passive.PortSpace() == cm.TCP {
		server.CreateQP(passive)
		require.NoError(client.T, passive.Accept(nil))
		client.Want(cm.Established, active)
		server.Want(cm.Established, passive)
	} else {
		require.NoError(client.T, passive.Accept(&cm.ConnParam{QPNum: 7}))
		client.Want(cm.Established, active)
	}
	return passive
}

// If a process of another user listens on the address, the client sends it nothing and
// connects to the server on the wildcard.
func TestDialSkipsForeignListener(t *testing.T) {
	peerproc.NeedsRoot(t)
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		client, server := newParty(t), newParty(t)
		l := server.Listen(ps, "0.0.0.0:0", 0)
		dst, name := squatted(l)
		line, kill := peerproc.Start(t, "squat-accepting", name)
		defer kill()
		require.Equal(t, "squatting", line())
		active := client.Connecting(ps, dst, &cm.ConnParam{PrivateData: []byte("secret")})
		require.Equal(t, "0 bytes", line())
		wantConnected(client, active, server, l)
		require.Equal(t, cmtest.Counted{"skipped_user_err": 1}, client.Counted())
		require.ErrorIs(t, client.ID(ps).Bind(active.LocalAddr()), cm.ErrAddrInUse, "the port is still the client's")
	})
}

// If all listeners belong to another user, the client's error names this user and the
// name of the socket.
func TestDialFindsForeignListenerOnly(t *testing.T) {
	peerproc.NeedsRoot(t)
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		client := newParty(t)
		dst := netip.MustParseAddrPort(withTestPorts("127.0.0.1:PORT"))
		name := hostport.New(nil).NewBindAddr(ps, dst, false).Name()
		line, kill := peerproc.Start(t, "squat-accepting", name)
		defer kill()
		require.Equal(t, "squatting", line())
		id := client.Connecting(ps, dst, nil)
		ev := client.Next()
		require.ErrorIs(t, ev.Err, cm.ErrRefused)
		require.ErrorIs(t, ev.Err, cm.ErrUserNotAllowed)
		require.ErrorContains(t, ev.Err, fmt.Sprintf("user not allowed: %s belongs to user %d", name, peerproc.User))
		require.NoError(t, ev.Ack())
		require.Equal(t, "0 bytes", line())
		_, known := id.Credentials()
		require.False(t, known)
	})
}

// A client skips a listener of another user even if the listener's backlog is full. If
// no other process listens, the client's error names that user.
func TestDialSkipsForeignQueue(t *testing.T) {
	peerproc.NeedsRoot(t)
	client, server := newParty(t), newParty(t)
	clock := cmtest.UseClock(client.TC)
	l := server.Listen(cm.TCP, "0.0.0.0:0", 0)
	dst, name := squatted(l)
	line, kill := peerproc.Start(t, "squat-full", name)
	defer kill()
	require.Equal(t, "squatting", line())
	wantConnected(client, client.Connecting(cm.TCP, dst, nil), server, l)

	require.NoError(t, l.Close())
	client.Connecting(cm.TCP, dst, nil)
	for range userLookupRounds {
		client.Quiet()
		clock.Advance(redialInterval)
	}
	ev := client.Next()
	require.ErrorIs(t, ev.Err, cm.ErrUserNotAllowed)
	require.ErrorContains(t, ev.Err, fmt.Sprintf("user not allowed: %s belongs to user %d", name, peerproc.User))
	require.NoError(t, ev.Ack())
	require.Equal(t, cmtest.Counted{"skipped_user_err": 1}, client.Counted())
}

// The client skips a name if the socket with that name does not listen.
func TestDialSkipsForeignName(t *testing.T) {
	peerproc.NeedsRoot(t)
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "0.0.0.0:0", 0)
	dst, name := squatted(l)
	line, kill := peerproc.Start(t, "squat-bound", name)
	defer kill()
	require.Equal(t, "squatting", line())
	wantConnected(client, client.Connecting(cm.TCP, dst, nil), server, l)
}

// peerAcceptAllowed runs a server that accepts one connection and prints the credentials
// of the client.
func peerAcceptAllowed(t *testing.T, _ string) {
	s := newParty(t)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	peerproc.Say(l.LocalAddr().String())
	id, _ := s.Request(l)
	c, known := id.Credentials()
	peerproc.Say(fmt.Sprint(os.Getpid(), os.Getppid() == int(c.PID), c.UID, c.GID, known))
	peerproc.Linger()
}

// Both sides of a connection get the credentials of their peers.
func TestCredentialsOfPeer(t *testing.T) {
	s := newHostParty(t)
	line, kill := peerproc.Start(t, "server-credentials", "")
	id := s.Resolved(cm.TCP, netip.MustParseAddrPort(line()))
	_, known := id.Credentials()
	require.False(t, known, "there is no connection yet")
	s.CreateQP(id)
	require.NoError(t, id.Connect(nil))
	c, known := id.Credentials()
	require.True(t, known)
	uid := uint32(os.Getuid())
	if uid == 0 {
		require.EqualValues(t, peerproc.User, c.UID)
		require.EqualValues(t, peerproc.User, c.GID)
	}
	require.Equal(t, fmt.Sprint(c.PID, true, uid, os.Getgid(), true), line())
	kill()
	s.WantRejected(id, cm.RejectConsumer, false, nil)
	again, _ := id.Credentials()
	require.Equal(t, c, again, "the credentials stay after the peer has ended")
}

// descriptorsOf returns the descriptors that are closed when an ID is destroyed. A
// descriptor that would be closed twice appears twice.
func descriptorsOf(i *connmgr.ID) (fds []int) {
	all := []int{i.Reservation().FD, i.Reservation().Marker}
	if c, ok := i.Channel().Probe().Conn(i).(*conn); ok {
		all = append(append(all, c.fd), c.passed...)
	}
	for _, fd := range all {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// resolvedWithoutListener returns an ID that has resolved an address where no process
// listens. The Reservation reserves this address.
func resolvedWithoutListener(t *testing.T) (client *party, i *connmgr.ID, listener hostport.Reservation) {
	client = newParty(t)
	listener, err := hostport.New(nil).Reserve(cm.TCP, netip.MustParseAddrPort("127.9.1.1:0"), false, false, hostport.New(nil).EphemeralPorts)
	require.NoError(t, err)
	t.Cleanup(listener.Close)
	made, err := client.TC.NewID(cm.TCP)
	require.NoError(t, err)
	i = made.(*connmgr.ID)
	require.NoError(t, i.ResolveAddr(netip.MustParseAddrPort("127.9.1.2:0"), netip.AddrPortFrom(listener.Addr.Addr, listener.Addr.Port), safety))
	wantTransportEvent(t, client, cm.AddrResolved)
	return client, i, listener
}

// wantTransportEvent fetches an event, which must have the given type. It is for IDs that
// the test uses without package cm.
func wantTransportEvent(t *testing.T, s *party, typ cm.EventType) cm.TransportEvent {
	t.Helper()
	var ev cm.TransportEvent
	ok, err := s.TC.Next(&ev)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, typ, ev.Type)
	return ev
}

// If a dial has failed, the socket of the ID has exactly one owner. The socket reserves
// the port until the ID is destroyed.
func TestDialOwnsSocketOnce(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		client, i, _ := resolvedWithoutListener(t)
		before := descriptorsOf(i)
		require.Len(t, before, 1)
		require.NoError(t, i.Connect(&cm.MessageParam{}))
		wantTransportEvent(t, client, cm.Rejected)
		require.Equal(t, before, descriptorsOf(i))
		require.NoError(t, i.Destroy())
		require.Empty(t, descriptorsOf(i))
		client.Quiet()
	})
	t.Run("after a wait", func(t *testing.T) {
		client, i, listener := resolvedWithoutListener(t)
		clock := cmtest.UseClock(client.TC)
		require.NoError(t, unix.Listen(listener.FD, 0))
		first, err := unixsock.New()
		require.NoError(t, err)
		require.NoError(t, unix.Connect(first, &unix.SockaddrUnix{Name: listener.Addr.Name()}))
		before := descriptorsOf(i)
		require.NoError(t, i.Connect(&cm.MessageParam{}))
		require.Equal(t, before, descriptorsOf(i))
		client.Quiet()
		listener.Close()
		require.NoError(t, unix.Close(first))
		clock.Advance(redialInterval)
		wantTransportEvent(t, client, cm.Rejected)
		require.Equal(t, before, descriptorsOf(i))
		_, err = unixsock.Bind(i.Reservation().Addr.Name())
		require.ErrorIs(t, err, unix.EADDRINUSE, "the port is still reserved")
		require.NoError(t, i.Destroy())
		require.Empty(t, descriptorsOf(i))
		cmtest.RequireNoTimer(t, client.TC)
	})
}

// If a security module refuses the connection, the dial returns its error.
func TestDialTellsDenial(t *testing.T) {
	d := &dial{conn: &conn{ch: newParty(t).TC}, denied: unix.EACCES}
	require.ErrorIs(t, d.cause(), unix.EACCES)
}
