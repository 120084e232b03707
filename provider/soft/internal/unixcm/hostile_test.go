//go:build linux

package unixcm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A rawPeer exchanges packets of the local path without an ID.
type rawPeer struct {
	t  *testing.T
	fd int
	// source address of the rawPeer's requests
	src netip.AddrPort
}

func newRawPeer(t *testing.T, fd int) *rawPeer {
	r := &rawPeer{t: t, fd: fd}
	t.Cleanup(r.close)
	return r
}

func dialRaw(t *testing.T, l *cm.ID) *rawPeer {
	t.Helper()
	port, err := hostport.New(nil).Reserve(l.PortSpace(), netip.AddrPortFrom(l.LocalAddr().Addr(), 0), false, false, hostport.New(nil).EphemeralPorts)
	require.NoError(t, err)
	r := newRawPeer(t, port.Take())
	r.src = netip.AddrPortFrom(port.Addr.Addr, port.Addr.Port)
	r.connect(l)
	return r
}

func (r *rawPeer) connect(l *cm.ID) {
	r.t.Helper()
	name := hostport.New(nil).NewBindAddr(l.PortSpace(), l.LocalAddr(), false).Name()
	require.NoError(r.t, unix.Connect(r.fd, &unix.SockaddrUnix{Name: name}))
}

func (r *rawPeer) close() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
}

func (r *rawPeer) send(packet []byte, fds ...int) {
	r.t.Helper()
	require.NoError(r.t, unixsock.Send(r.fd, packet, fds))
}

func (r *rawPeer) request(l *cm.ID) *connmgr.REQ {
	return &connmgr.REQ{Endpoints: connmgr.Endpoints{Src: r.src, Dst: l.LocalAddr()}, QPParams: connmgr.QPParams{QPN: 5}, Retry: 7, Private: []byte{}}
}

// closedByPeer reports whether the other side has closed its socket.
func (r *rawPeer) closedByPeer() bool {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	require.NoError(r.t, err)
	return n > 0
}

// If a client violates the protocol, its connection ends. Other clients can still
// connect.
func TestHostileClients(t *testing.T) {
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	defer unixsock.CloseAll(pipe)
	good := func(r *rawPeer, l *cm.ID) []byte { return encode(r.request(l)) }
	for name, attack := range map[string]func(r *rawPeer, l *cm.ID){
		"garbage":    func(r *rawPeer, _ *cm.ID) { r.send([]byte("GET / HTTP/1.0\r\n\r\n")) },
		"empty":      func(r *rawPeer, _ *cm.ID) { r.send(nil) },
		"too long":   func(r *rawPeer, l *cm.ID) { r.send(append(good(r, l), make([]byte, maxMessage)...)) },
		"closes":     func(r *rawPeer, _ *cm.ID) { _ = unix.Shutdown(r.fd, unix.SHUT_WR) },
		"descriptor": func(r *rawPeer, l *cm.ID) { r.send(good(r, l), pipe[0]) },
		"reply":      func(r *rawPeer, _ *cm.ID) { r.send(encode(&connmgr.REP{})) },
		"disconnect": func(r *rawPeer, _ *cm.ID) { r.send(encode(&connmgr.DREQ{})) },
		"lookup": func(r *rawPeer, l *cm.ID) {
			r.send(encode(&connmgr.SIDRREQ{Endpoints: r.request(l).Endpoints}))
		},
		"another address": func(r *rawPeer, l *cm.ID) {
			m := r.request(l)
			m.Dst = at("127.0.0.2", l)
			r.send(encode(m))
		},
		"another port": func(r *rawPeer, l *cm.ID) {
			m := r.request(l)
			m.Dst = netip.AddrPortFrom(m.Dst.Addr(), m.Dst.Port()^1)
			r.send(encode(m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := newParty(t), newParty(t)
			l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
			attacker := dialRaw(t, l)
			attack(attacker, l)
			server.Quiet()
			require.True(t, attacker.closedByPeer())
			require.Empty(t, listenerOf(server).clients)
			reaches(client, server, l, l.LocalAddr())
			attacker.close()
		})
	}
}

func TestSilentClients(t *testing.T) {
	client, server := newParty(t), newParty(t)
	clock := cmtest.UseClock(server.TC)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	silent := make([]*rawPeer, maxClients+1)
	for i := range silent {
		silent[i] = dialRaw(t, l)
	}
	// The server accepts all clients, but keeps only maxClients of them.
	server.Quiet()
	server.Quiet()
	require.True(t, silent[0].closedByPeer(), "the oldest client is closed")
	require.False(t, silent[1].closedByPeer())
	reaches(client, server, l, l.LocalAddr())
	require.True(t, silent[1].closedByPeer())

	clock.Advance(clientTimeout)
	server.Quiet()
	for _, r := range silent {
		require.True(t, r.closedByPeer())
		r.close()
	}
	cmtest.RequireNoTimer(t, server.TC)
}

// If a client sends a second message that is invalid, the server ends the connection.
func TestHostileRequester(t *testing.T) {
	server := newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	attacker := dialRaw(t, l)
	attacker.send(encode(attacker.request(l)))
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	attacker.send(encode(&connmgr.RTU{})) // The RTU is invalid because the server has sent no REP.
	server.Quiet()
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
	attacker.close()
}

// An invalid message ends an established connection.
func TestHostileConnected(t *testing.T) {
	for name, packet := range map[string][]byte{
		"garbage":      []byte("x"),
		"second ready": encode(&connmgr.RTU{}),
		"answer":       encode(&connmgr.DREP{}),
		"reply":        encode(&connmgr.REP{}),
	} {
		t.Run(name, func(t *testing.T) {
			server := newParty(t)
			l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
			attacker := dialRaw(t, l)
			attacker.send(encode(attacker.request(l)))
			passive, _ := server.Request(l)
			server.CreateQP(passive)
			require.NoError(t, passive.Accept(nil))
			attacker.send(encode(&connmgr.RTU{}))
			server.Want(cm.Established, passive)
			attacker.send(packet)
			require.Zero(t, server.Want(cm.Disconnected, passive).Status)
			require.Equal(t, verbs.StateError, passive.QP().State())
			attacker.close()
		})
	}
}

// hostileServer listens on a port with a raw socket. It returns a function that accepts a
// client.
func hostileServer(t *testing.T) (listener *hostport.Reservation, accept func() *rawPeer) {
	t.Helper()
	port, err := hostport.New(nil).Reserve(cm.TCP, netip.MustParseAddrPort("127.0.0.1:0"), false, false, hostport.New(nil).EphemeralPorts)
	require.NoError(t, err)
	require.NoError(t, unix.Listen(port.FD, 1))
	t.Cleanup(port.Close)
	return &port, func() *rawPeer {
		fd, err := unixsock.Accept(port.FD)
		require.NoError(t, err)
		return newRawPeer(t, fd)
	}
}

// newSegment returns a REP that names a new segment. It must be sent together with the
// descriptors of the segment.
func newSegment() *connmgr.REP {
	return &connmgr.REP{Private: []byte("trust me"), Shared: connmgr.SharedMemory{Side: 1, Passed: true}}
}

func replyDescriptors(t *testing.T) (segment, doorbell int) {
	t.Helper()
	end, err := newEnds(0).Choose(shm.EndKey{})
	require.NoError(t, err)
	fds, err := end.Pass()
	require.NoError(t, err)
	t.Cleanup(func() {
		end.Release()
		unixsock.CloseAll(fds)
	})
	return fds[passedSegment], fds[passedDoorbell]
}

func TestHostileServers(t *testing.T) {
	before := peerproc.OpenDescriptors(t)
	for name, attack := range map[string]func(t *testing.T, r *rawPeer){
		"garbage": func(_ *testing.T, r *rawPeer) { r.send([]byte{codecVersion, 0xff}) },
		"request": func(_ *testing.T, r *rawPeer) {
			r.send(encode(someMessages()[0]))
		},
		"ready":          func(_ *testing.T, r *rawPeer) { r.send(encode(&connmgr.RTU{})) },
		"no descriptors": func(_ *testing.T, r *rawPeer) { r.send(encode(newSegment())) },
		"too few": func(t *testing.T, r *rawPeer) {
			seg, _ := replyDescriptors(t)
			r.send(encode(newSegment()), seg)
		},
		"too many": func(t *testing.T, r *rawPeer) {
			seg, doorbell := replyDescriptors(t)
			r.send(encode(newSegment()), seg, doorbell, doorbell)
		},
		"far too many": func(t *testing.T, r *rawPeer) {
			seg, doorbell := replyDescriptors(t)
			r.send(encode(newSegment()), seg, doorbell, doorbell, doorbell, doorbell, doorbell, doorbell)
		},
		"wrong order": func(t *testing.T, r *rawPeer) {
			seg, doorbell := replyDescriptors(t)
			r.send(encode(newSegment()), doorbell, seg)
		},
		"another kind of doorbell": func(t *testing.T, r *rawPeer) {
			seg, _ := replyDescriptors(t)
			event, err := fdevent.NewEvent()
			require.NoError(t, err)
			defer event.Close()
			r.send(encode(newSegment()), seg, event.FD())
		},
		"descriptors with a reject": func(t *testing.T, r *rawPeer) {
			_, doorbell := replyDescriptors(t)
			r.send(encode(&connmgr.REJ{Reason: cm.RejectConsumer, ByApplication: true}), doorbell)
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := newParty(t)
			port, accept := hostileServer(t)
			id := client.Connecting(cm.TCP, netip.AddrPortFrom(port.Addr.Addr, port.Addr.Port), nil)
			attacker := accept()
			attack(t, attacker)
			client.WantRejected(id, cm.RejectConsumer, false, nil)
			client.Quiet()
			attacker.close()
			port.Close()
		})
	}
	require.Equal(t, before, peerproc.OpenDescriptors(t))
}

// A client refuses shared memory whose size can still change.
func TestHostileSegment(t *testing.T) {
	before := peerproc.OpenDescriptors(t)
	t.Run("unsealed", func(t *testing.T) {
		client := newParty(t)
		port, accept := hostileServer(t)
		id := client.Connecting(cm.TCP, netip.AddrPortFrom(port.Addr.Addr, port.Addr.Port), nil)
		attacker := accept()
		_, doorbell := replyDescriptors(t)
		memory, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC)
		require.NoError(t, err)
		defer unix.Close(memory)
		attacker.send(encode(newSegment()), memory, doorbell)
		ev := client.Want(cm.ConnectError, id)
		require.Equal(t, connmgr.StatusSetupFailed, ev.Status)
		require.ErrorIs(t, ev.Err, shm.ErrSegment)
		require.Equal(t, verbs.StateError, id.QP().State())

		// The attacker is the server. It receives the client's REQ, and then the REJ with
		// which the client refuses the shared memory.
		var packet [maxMessage]byte
		_, _, err = unixsock.Receive(attacker.fd, packet[:], 0)
		require.NoError(t, err)
		n, _, err := unixsock.Receive(attacker.fd, packet[:], 0)
		require.NoError(t, err)
		m, err := decode(packet[:n])
		require.NoError(t, err)
		require.Equal(t, &connmgr.REJ{Reason: cm.RejectConsumer, Private: []byte{}}, m)
		attacker.close()
		port.Close()
	})
	require.Equal(t, before, peerproc.OpenDescriptors(t))
}
