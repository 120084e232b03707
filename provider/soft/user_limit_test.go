//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

func TestUserLimitCounts(t *testing.T) {
	const own, other, unmapped = 1000, 1001, 65534
	l := newUserLimit(&Config{MaxConnsPerUser: 2}, userPolicy{own: own, unmapped: unmapped})
	for range 5 {
		require.True(t, l.acquire(own))
		require.True(t, l.acquire(0))
	}
	for _, uid := range []uint32{other, unmapped} {
		require.True(t, l.acquire(uid))
		require.True(t, l.acquire(uid))
		require.False(t, l.acquire(uid))
		l.release(uid)
		require.True(t, l.acquire(uid))
	}
	l.release(other)
	l.release(other)
	require.NotContains(t, l.conns, uint32(other), "users without connections are removed")

	l = newUserLimit(&Config{MaxConnsPerUser: 1}, userPolicy{own: unmapped, unmapped: unmapped})
	require.True(t, l.acquire(unmapped))
	require.False(t, l.acquire(unmapped), "the number may stand for another user")
	l = newUserLimit(&Config{MaxConnsPerUser: -1}, userPolicy{own: own})
	for range 100 {
		require.True(t, l.acquire(other))
	}
	require.Positive(t, newUserLimit(&Config{}, userPolicy{}).limit)
}

// userConns is the value of Config.MaxConnsPerUser in the tests of this file.
const userConns = 3

// peerOverLimit is a process that opens userConns connections. It tries to open two more,
// which fail. It closes one connection, and connects again.
func peerOverLimit(t *testing.T, address string) {
	s := newParty(t)
	at := netip.MustParseAddrPort(address)
	var ids [userConns]*cm.ID
	for i := range ids {
		ids[i] = s.connecting(cm.TCP, at, nil)
		s.want(cm.Established, ids[i])
	}
	wantNoResources(s, s.connecting(cm.TCP, at, nil))
	wantNoResources(s, s.connecting(cm.TCP, at, nil))
	say("refused")
	s.end(ids[0])
	for dialed(s, at) == nil {
		// The server refuses the connection until it has noticed that the other one is
		// closed.
	}
	say("back")
	linger()
}

// A user who has MaxConnsPerUser connections gets no further connection. Meanwhile other
// users get connections.
func TestUserOverLimit(t *testing.T) {
	needsRoot(t)
	client := newParty(t)
	server := openParty(t, &Config{Vectors: 1, AllowedUsers: []uint32{peerUser}, MaxConnsPerUser: userConns})
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := startPeer(t, "over-limit", l.LocalAddr().String())
	requests := 0
	acceptAll := func(until func() bool) {
		for !until() {
			awaitReadable(t, server.ch.FD())
			ev, err := server.ch.Next()
			require.NoError(t, err)
			if ev == nil {
				continue
			}
			id, typ := ev.ID, ev.Type
			require.NoError(t, ev.Ack())
			switch typ {
			case cm.ConnectRequest:
				requests++
				server.endLater(id)
				server.createQP(id)
				require.NoError(t, id.Accept(nil))
			case cm.Disconnected:
				server.end(id)
			}
		}
	}
	// The peer goes on without waiting for the server. So by now it may have been refused
	// more than twice, or its last connection may already be accepted.
	acceptAll(func() bool { return countsOf(t, server.p.dev)["user_limit_err"] >= 2 })
	require.LessOrEqual(t, requests, userConns+1, "refused requests are not delivered")
	require.Equal(t, "refused", line())
	mine := client.connecting(cm.TCP, l.LocalAddr(), nil)
	// Two more requests arrive: the one of client, and the last one of the peer.
	acceptAll(func() bool { return requests == userConns+2 })
	client.want(cm.Established, mine)
	require.Equal(t, "back", line())
	kill()
}

// When too many clients have connected without sending a request, the next client
// replaces one of them: the oldest one of the user who has the most such clients. The
// next client counts for its user.
func TestBusiestUsersOldestIsClosed(t *testing.T) {
	g := &unixListener{}
	add := func(uid uint32) *client {
		c := &client{unixConn: &unixConn{peer: cm.Credentials{UID: uid}}}
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
