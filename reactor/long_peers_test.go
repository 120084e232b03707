//go:build linux

package reactor_test

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// longPeers has a server, a peer that stops while its four connections announce long
// messages, and another peer, all on hosts of their own.
type longPeers struct {
	*reactortest.World
	server   *reactor.Loop
	accepted []*reactor.Conn // connections of the peer that stops, as the server has them
	closed   int             // number of closed connections at the server
	other    *reactortest.Conn
	received int // number of messages of the other peer that have arrived
}

const longPeersSize = 1 << 18

// withLongPeers calls fn when the connections have announced a message each and the peer has
// stopped.
func withLongPeers(t *testing.T, loopBytes int, fn func(t *testing.T, p *longPeers)) {
	const conns = 4
	cfg := quiet(&reactor.Config{MaxLongMessage: longPeersSize, Memory: reactor.Memory{LongLoopBytes: loopBytes}})
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		p, h := &longPeers{World: w}, w.Host("server")
		p.server = h.Process("server").Start(&hooks{
			open:    func(c *reactor.Conn) { p.accepted = append(p.accepted, c) },
			message: func(*reactor.Conn, reactor.Message) { p.received++ },
			close:   func(*reactor.Conn, error) { p.closed++ },
		}, cfg).Loop(0)
		_, err := p.server.Engine().Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		p.other = w.Dial(w.Host("other").Process("other").Start(&hooks{}, cfg), h.AddrPort(1), nil)
		w.Until(time.Second, func() bool { return len(p.accepted) == 1 })
		p.accepted = nil

		process := w.Host("stops").Process("stops")
		stops := process.Start(&hooks{}, cfg).Loop(0)
		for range conns {
			require.NoError(t, stops.Engine().Dial(h.AddrPort(1), nil))
		}
		w.Until(time.Second, func() bool { return stops.Stats().Opened == conns && len(p.accepted) == conns })
		w.On(stops, func() {
			for _, c := range reactor.ConnsOf(stops) {
				require.NoError(t, c.Send(make([]byte, longPeersSize), nil))
			}
			process.Stop() // when the announcements have left
		})
		w.Until(time.Second, func() bool { return reactor.LongBytes(p.server)/longPeersSize+reactor.LongWaiting(p.server) == conns })
		fn(t, p)
	})
}

// A peer that stops answering can not use all memory for long messages. So others need
// not wait until its READs fail.
func TestStoppedPeerLeavesLongMemory(t *testing.T) {
	withLongPeers(t, 3*longPeersSize, func(t *testing.T, p *longPeers) {
		require.Equal(t, 2*longPeersSize, reactor.LongBytes(p.server))
		p.other.Send(make([]byte, longPeersSize))
		p.Until(time.Second, func() bool { return p.received == 1 })
		require.Zero(t, p.closed)
		require.Equal(t, 2*longPeersSize, reactor.LongBytes(p.server))
		require.Equal(t, 2, reactor.LongWaiting(p.server))
	})
}

// If there is memory for one message only, the free memory goes to another peer, and not
// to the next connection of the peer that has stopped.
func TestFreeLongMemoryGoesToAnotherPeer(t *testing.T) {
	withLongPeers(t, longPeersSize, func(t *testing.T, p *longPeers) {
		require.Equal(t, 3, reactor.LongWaiting(p.server))
		p.other.Send(make([]byte, longPeersSize))
		p.Until(time.Second, func() bool { return reactor.LongWaiting(p.server) == 4 })
		p.On(p.server, func() {
			for _, c := range p.accepted {
				if reactor.ReadsLong(c) {
					require.NoError(t, c.Abort(nil))
				}
			}
		})
		p.Until(time.Second, func() bool { return p.received == 1 })
		require.Equal(t, 1, p.closed)
	})
}

// A connection that ends while others of its peer wait before it stops waiting at once.
func TestEndedConnLeavesLongRow(t *testing.T) {
	withLongPeers(t, 3*longPeersSize, func(t *testing.T, p *longPeers) {
		require.Equal(t, 2, reactor.LongWaiting(p.server))
		first := reactor.LongNext(p.server)
		p.On(p.server, func() {
			for _, c := range p.accepted {
				if !reactor.ReadsLong(c) && c != first {
					require.NoError(t, c.Abort(nil))
				}
			}
		})
		p.Until(time.Second, func() bool { return p.closed == 1 })
		require.Equal(t, 1, reactor.LongWaiting(p.server))
		require.Equal(t, 2*longPeersSize, reactor.LongBytes(p.server))
	})
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
