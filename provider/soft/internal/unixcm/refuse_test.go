//go:build linux

package unixcm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestNoListener(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		s := newParty(t)
		bound := s.ID(ps) // This ID does not listen.
		require.NoError(t, bound.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
		for _, dst := range []netip.AddrPort{
			bound.LocalAddr(),
			netip.AddrPortFrom(netip.MustParseAddr("127.0.0.77"), bound.LocalAddr().Port()),
		} {
			id := s.Connecting(ps, dst, nil)
			if ps == cm.UDP {
				s.WantUnreachable(id, cm.SIDRUnsupported, false, nil)
			} else {
				s.WantRejected(id, cm.RejectInvalidServiceID, false, nil)
			}
		}
	})
}

func TestReject(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		for _, n := range sizes(ps, cm.MessageReject) {
			s := newParty(t)
			l := s.Listen(ps, "127.0.0.1:0", 0)
			active := s.Connecting(ps, l.LocalAddr(), nil)
			passive, _ := s.Request(l)
			private := lend(t, n, func(p *cm.ConnParam) error { return passive.Reject(p.PrivateData) })
			s.WantRefusal(active, true, private)
		}
	})
}

func TestRejectNoResources(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		s := newParty(t)
		l := s.Listen(ps, "127.0.0.1:0", 0)
		active := s.Connecting(ps, l.LocalAddr(), nil)
		passive, _ := s.Request(l)
		require.NoError(t, passive.RejectNoResources())
		s.WantNoResources(active)
	})
}

// If the server closes the ID of a request that it has not answered, the request is
// refused. The client's event says that the system has refused, not the application.
func TestDestroyUnanswered(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		s := newParty(t)
		l := s.Listen(ps, "127.0.0.1:0", 0)
		active := s.Connecting(ps, l.LocalAddr(), nil)
		passive, _ := s.Request(l)
		require.NoError(t, passive.Close())
		s.WantRefusal(active, false, nil)
	})
}

// A listener that is closed refuses the requests that its application has not fetched,
// and also the clients in the backlog of its socket.
func TestListenerCloses(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		client, server := newParty(t), newParty(t)
		l := server.Listen(ps, "127.0.0.1:0", 2)
		var fetched *cm.ID
		ids := make([]*cm.ID, 3)
		for i := range ids {
			ids[i] = client.Connecting(ps, l.LocalAddr(), nil)
			if i == 0 {
				fetched, _ = server.Request(l)
			}
		}
		at := l.LocalAddr()
		require.NoError(t, l.Close())
		client.WantRefusal(ids[1], false, nil)
		client.WantRefusal(ids[2], false, nil)

		// The application can use the fetched request's ID. This ID does not reserve the
		// port, so another ID can bind it.
		again := server.ID(ps)
		require.NoError(t, again.Bind(at))
		server.CreateQP(fetched)
		require.NoError(t, fetched.Accept(nil))
		client.Want(cm.Established, ids[0])
	})
}

func TestClientLeavesBeforeAccept(t *testing.T) {
	for _, answer := range []string{"accept", "reject"} {
		client, server := newParty(t), newParty(t)
		l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
		active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
		passive, _ := server.Request(l)
		server.CreateQP(passive)
		client.End(active)
		server.Quiet()
		if answer == "accept" {
			require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
			require.Equal(t, verbs.StateError, passive.QP().State())
		} else {
			require.ErrorIs(t, passive.Reject(nil), verbs.ErrPeerGone)
		}
		server.Quiet()
	}
}

// Accept fails if the client has closed its ID, even if the server's channel has not yet
// noticed that.
func TestClientLeftUnseen(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	client.End(active)
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
	server.Quiet()
}

// If the client closes its ID instead of sending an RTU, the server gets Rejected.
func TestClientLeavesAccepted(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.End(active)
	server.WantRejected(passive, cm.RejectTimeout, false, nil)
}

// timeOut sends a request that the server does not answer. It requires that the request
// times out after the time limit.
func timeOut(t *testing.T, ps cm.PortSpace, limit time.Duration) (client, server *party, active, passive *cm.ID) {
	t.Helper()
	client, server = newParty(t), newParty(t)
	clock := cmtest.UseClock(client.TC)
	l := server.Listen(ps, "127.0.0.1:0", 0)
	active = client.Connecting(ps, l.LocalAddr(), nil)
	passive, _ = server.Request(l)
	clock.Advance(limit - 1)
	client.Quiet()
	clock.Advance(1)
	ev := client.Want(cm.Unreachable, active)
	require.Equal(t, connmgr.StatusTimedOut, ev.Status)
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
	server.CreateQP(passive)
	server.Quiet()
	return client, server, active, passive
}

func TestConnectTimesOut(t *testing.T) {
	_, server, active, passive := timeOut(t, cm.TCP, connmgr.MaxServiceTime)
	require.Equal(t, verbs.StateError, active.QP().State())
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
	require.Equal(t, verbs.StateError, passive.QP().State())
	server.Quiet()
}

// A SIDR request that times out changes the state of no queue pair. The client ignores
// an answer that arrives later.
func TestLookupTimesOut(t *testing.T) {
	client, server, active, passive := timeOut(t, cm.UDP, connmgr.SIDRTimeout)
	require.Equal(t, verbs.StateRTS, active.QP().State())
	require.NoError(t, passive.Accept(nil))
	require.Equal(t, verbs.StateRTS, passive.QP().State())
	client.Quiet()
	server.Quiet()
}

// If the listener closes without answering a SIDR request, the client's queue pair stays
// in RTS.
func TestLookupListenerVanishes(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.UDP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.UDP, l.LocalAddr(), nil)
	require.NoError(t, l.Close()) // The SIDR request has not been read yet.
	client.WantRefusal(active, false, nil)
	require.Equal(t, verbs.StateRTS, active.QP().State())
}

func TestAcceptTimesOut(t *testing.T) {
	client, server := newParty(t), newParty(t)
	clock := cmtest.UseClock(server.TC)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	clock.Advance(connmgr.RTUTimeout)
	ev := server.Want(cm.Unreachable, passive)
	require.Equal(t, connmgr.StatusTimedOut, ev.Status)
	require.Equal(t, verbs.StateError, passive.QP().State())
}
