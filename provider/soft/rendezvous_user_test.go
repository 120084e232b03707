//go:build linux

package soft

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// needsRoot leaves out a test whose peer has to be a process of another user.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
}

// peerRefused asks for a connection and for a datagram lookup at an address. It
// expects to be refused both, and to be told why.
func peerRefused(t *testing.T, address string) {
	s := newParty(t)
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		id := s.connecting(ps, netip.MustParseAddrPort(address), &cm.ConnParam{PrivateData: []byte("secret")})
		ev := s.next()
		require.Same(t, id, ev.ID)
		require.ErrorIs(t, ev.Err, cm.ErrRefused)
		var user *cm.UserError
		require.ErrorAs(t, ev.Err, &user)
		require.Equal(t, cm.UserError{UID: uint32(os.Geteuid())}, *user)
		require.NoError(t, ev.Ack())
	}
	say("refused")
	linger()
}

// A process of a user who is not allowed is refused, which is counted, and its
// request does not reach the application.
func TestListenerRefusesUser(t *testing.T) {
	needsRoot(t)
	s := newParty(t)
	l := s.listen(cm.TCP, "127.0.0.1:0", 0)
	lookups := s.listen(cm.UDP, l.LocalAddr().String(), 0)
	line, kill := startPeer(t, "refused", l.LocalAddr().String())
	for countsOf(t, s.p.dev)["rcvd_user_err"] < 2 {
		awaitReadable(t, s.ch.FD())
		s.quiet()
	}
	require.Equal(t, "refused", line())
	s.quiet()
	require.Equal(t, counted{"rcvd_user_err": 2}, countsOf(t, s.p.dev))
	require.Empty(t, s.tc.timers)
	kill()
	require.NoError(t, lookups.Close())
}
