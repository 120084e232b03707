package reactor_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// longPeers has a server, a peer that stops answering while its connections announce long
// messages, and another peer, all with addresses of their own.
type longPeers struct {
	t            *testing.T
	server       *reactor.Loop
	other        *reactor.Loop
	addr         netip.AddrPort
	accepted     []*reactor.Conn // connections of the peer that stops, as the server has them
	toServer     *reactor.Conn   // connection of the other peer
	fromOther    int             // number of messages of the other peer that have arrived
	closed       int             // number of closed connections at the server
	otherAddress netip.AddrPort
}

const longPeersSize = 1 << 20

// newLongPeers returns when all connections of the first peer have announced a message
// and the peer has stopped.
func newLongPeers(t *testing.T, conns, loopBytes int) *longPeers {
	p := &longPeers{t: t, otherAddress: netip.MustParseAddrPort("127.0.0.3:0")}
	cfg := &reactor.Config{MaxLongMessage: longPeersSize, LongLoopBytes: loopBytes}
	port := freeport.UDP(t)
	p.server = wireLoopWith(t, &hooks{
		open: func(c *reactor.Conn) {
			if c.RemoteAddr().Addr() != p.otherAddress.Addr() {
				p.accepted = append(p.accepted, c)
			}
		},
		message: func(c *reactor.Conn, m reactor.Message) {
			require.Equal(t, p.otherAddress.Addr(), c.RemoteAddr().Addr())
			require.Len(t, m.Data(), longPeersSize)
			p.fromOther++
		},
		close: func(*reactor.Conn, error) { p.closed++ },
	}, port, cfg)
	ln, err := p.server.Engine().Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	p.addr = ln.Addr()
	var dialed []*reactor.Conn
	stops := wireLoopWith(t, &hooks{open: func(c *reactor.Conn) { dialed = append(dialed, c) }}, port, cfg)
	for range conns {
		require.NoError(t, stops.Dial(p.addr, &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.0.0.2:0")}))
	}
	drive(t, func() bool { return len(dialed) == conns && len(p.accepted) == conns }, p.server, stops)
	for _, c := range dialed {
		require.NoError(t, c.Send(make([]byte, longPeersSize)))
	}
	for range 3 { // The announcements leave. The server does not run, so no READ is answered.
		_, _ = stops.RunOnce(0)
	}
	drive(t, func() bool { return reactor.LongBytes(p.server)/longPeersSize+reactor.LongWaiting(p.server) == conns }, p.server)
	p.other = wireLoopWith(t, &hooks{open: func(c *reactor.Conn) { p.toServer = c }}, port, cfg)
	return p
}

// send sends a long message of the other peer.
func (p *longPeers) send() {
	require.NoError(p.t, p.other.Dial(p.addr, &reactor.DialOptions{LocalAddr: p.otherAddress}))
	drive(p.t, func() bool { return p.toServer != nil }, p.server, p.other)
	require.NoError(p.t, p.toServer.Send(make([]byte, longPeersSize)))
}

// A peer that stops answering can not use all memory for long messages. So others need
// not wait until its READs fail.
func TestStoppedPeerLeavesLongMemory(t *testing.T) {
	p := newLongPeers(t, 6, 4*longPeersSize)
	require.Equal(t, 3*longPeersSize, reactor.LongBytes(p.server))
	p.send()
	drive(t, func() bool { return p.fromOther == 1 }, p.server, p.other)
	require.Zero(t, p.closed)
	require.Equal(t, 3*longPeersSize, reactor.LongBytes(p.server))
	require.Equal(t, 3, reactor.LongWaiting(p.server))
}

// If there is memory for one message only, the free memory goes to another peer, and not
// to the next connection of the peer that has stopped.
func TestFreeLongMemoryGoesToAnotherPeer(t *testing.T) {
	p := newLongPeers(t, 6, longPeersSize)
	require.Equal(t, 5, reactor.LongWaiting(p.server))
	p.send()
	drive(t, func() bool { return reactor.LongWaiting(p.server) == 6 }, p.server, p.other)
	for _, c := range p.accepted {
		if reactor.ReadsLong(c) {
			require.NoError(t, c.Abort(nil))
		}
	}
	drive(t, func() bool { return p.fromOther == 1 }, p.server, p.other)
	require.Equal(t, 1, p.closed)
}

// A connection that ends while others of its peer wait before it stops waiting at once.
func TestEndedConnLeavesLongRow(t *testing.T) {
	p := newLongPeers(t, 6, 4*longPeersSize)
	var waiting []*reactor.Conn
	for _, c := range p.accepted {
		if !reactor.ReadsLong(c) {
			waiting = append(waiting, c)
		}
	}
	require.Len(t, waiting, 3)
	first := reactor.LongNext(p.server)
	for _, c := range waiting {
		if c != first {
			require.NoError(t, c.Abort(nil))
		}
	}
	drive(t, func() bool { return p.closed == 2 }, p.server)
	require.Equal(t, 1, reactor.LongWaiting(p.server))
	require.Equal(t, 3*longPeersSize, reactor.LongBytes(p.server))
}

// Which connections belong to one peer.
func TestLongPeers(t *testing.T) {
	own, other := uint32(os.Geteuid()), uint32(54321)
	at := func(s string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(s), 1) }
	here := at("127.0.0.1")
	process := func(uid uint32, pid int32) *cm.Credentials { return &cm.Credentials{UID: uid, PID: pid} }
	for name, c := range map[string]struct {
		a, b             *cm.Credentials
		remoteA, remoteB netip.AddrPort
		want             bool
	}{
		"one process":                   {process(own, 5), process(own, 5), here, here, true},
		"two processes":                 {process(own, 5), process(own, 6), here, here, false},
		"two processes of another user": {process(other, 5), process(other, 6), here, here, true},
		"two other users":               {process(other, 5), process(other+1, 5), here, here, false},
		"processes in other namespaces": {process(own, 0), process(own, 0), here, here, false},
		"another user in a namespace":   {process(other, 0), process(other, 0), here, here, true},
		"one host":                      {nil, nil, at("10.0.0.1"), at("10.0.0.1"), true},
		"two hosts":                     {nil, nil, at("10.0.0.1"), at("10.0.0.2"), false},
		"two addresses of one network":  {nil, nil, at("2001:db8::1"), at("2001:db8::2"), true},
		"addresses of two networks":     {nil, nil, at("2001:db8:0:1::1"), at("2001:db8:0:2::1"), false},
		"a process and its host":        {process(own, 5), nil, here, here, false},
		"one host with IPv4 and mapped": {nil, nil, at("10.0.0.1"), at("::ffff:10.0.0.1"), true},
	} {
		require.Equal(t, c.want, reactor.SameLongPeer(c.a, c.b, c.remoteA, c.remoteB), name)
	}
}
