//go:build linux

package soft

import (
	"bytes"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
)

// userConns is Config.MaxConnsPerUser in this file.
const userConns = 3

// peerOverLimit is the function of a peer process. It opens userConns connections, and
// checks that the next two are refused. Then it closes one connection and opens another
// one.
func peerOverLimit(t *testing.T, address string) {
	s := newParty(t)
	at := netip.MustParseAddrPort(address)
	var ids [userConns]*cm.ID
	for i := range ids {
		ids[i] = s.Connecting(cm.TCP, at, nil)
		s.Want(cm.Established, ids[i])
	}
	s.WantNoResources(s.Connecting(cm.TCP, at, nil))
	s.WantNoResources(s.Connecting(cm.TCP, at, nil))
	peerproc.Say("refused")
	s.End(ids[0])
	for dialed(s, at) == nil {
		// The server refuses the new connection until it has noticed the end of the old
		// one.
	}
	peerproc.Say("back")
	peerproc.Linger()
}

// A user can have only MaxConnsPerUser connections. Other users can still connect.
func TestUserOverLimit(t *testing.T) {
	peerproc.NeedsRoot(t)
	client := newParty(t)
	var log bytes.Buffer
	server := openParty(t, &Config{AllowedUsers: []uint32{peerproc.User}, MaxConnsPerUser: userConns, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := peerproc.Start(t, "over-limit", l.LocalAddr().String())
	requests := 0
	acceptAll := func(until func() bool) {
		for !until() {
			cmside.AwaitReadable(t, server.Channel.FD())
			ev, ok, err := server.Channel.Next()
			require.NoError(t, err)
			if !ok {
				continue
			}
			id, typ := ev.ID, ev.Type
			require.NoError(t, ev.Ack())
			switch typ {
			case cm.ConnectRequest:
				requests++
				server.EndLater(id)
				server.CreateQP(id)
				require.NoError(t, id.Accept(nil))
			case cm.Disconnected:
				server.End(id)
			}
		}
	}
	// When acceptAll returns, the server has refused at least two requests. It may have
	// refused more, and it may have accepted the peer's last connection.
	acceptAll(func() bool { return countsOf(t, server.p.dev)["user_limit_err"] >= 2 })
	require.Contains(t, log.String(), "soft.Config.MaxConnsPerUser")
	require.LessOrEqual(t, requests, userConns+1, "refused requests are not delivered")
	require.Equal(t, "refused", line())
	mine := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	// The server accepts userConns+1 requests of the peer, and one of this process.
	acceptAll(func() bool { return requests == userConns+2 })
	client.Want(cm.Established, mine)
	require.Equal(t, "back", line())
	kill()
}
