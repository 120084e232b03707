//go:build linux

package madcm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// otherAddr is the address of a third host.
var otherAddr = netip.MustParseAddr("127.8.0.9")

// resendREQ sends the REQ r with another communication ID, as if for another connection
// with the same queue pair. It returns the reason of the server's REJ, or 0 if the
// server sends none.
func (s *madPeer) resendREQ(r *wire.REQ) cm.RejectReason {
	s.t.Helper()
	again := *r
	again.LocalID++
	answers := s.sendREQ(&again)
	if len(answers) == 0 {
		return 0
	}
	require.Len(s.t, answers, 1)
	var rej wire.REJ
	rej.Decode(&answers[0])
	return cm.RejectReason(rej.Reason)
}

// A peer that has lost its connection sends a REQ with the same queue pair. The server
// refuses the REQ and ends the old connection. It accepts the next REQ.
func TestWireCMStale(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive, r, _ := s.established(l)
	require.Equal(t, cm.RejectStale, s.resendREQ(r))
	ev := s.server.Want(cm.Disconnected, passive)
	require.Zero(t, ev.Status)
	require.ErrorIs(t, ev.Err, cm.ErrStale)
	require.NoError(t, passive.Disconnect(nil))
	s.server.Want(cm.TimewaitExit, passive)
	require.Zero(t, s.resendREQ(r))
	s.server.Request(l)
}

// If a third host sends a REQ with the GUID and the queue pair of a peer, the connection
// of the peer does not end.
func TestWireCMStaleNeedsTheAddress(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive, r, rep := s.established(l)
	forged := s.reqFrom(otherAddr, l.LocalAddr().Port())
	require.Equal(t, r.CAGUID, forged.CAGUID)
	require.Equal(t, r.QPN, forged.QPN)
	var m wire.MAD
	for range 2 {
		forged.Encode(&m, 1)
		s.inject(&m, otherAddr, serverAddr)
		s.settle()
	}
	s.server.Request(l)
	s.server.Quiet()
	dreq := wire.DREQ{LocalID: r.LocalID, RemoteID: rep.LocalID, RemoteQPN: rep.QPN}
	dreq.Encode(&m, 1)
	s.send(&m)
	require.NoError(t, s.server.Want(cm.Disconnected, passive).Err)
}

// A closed ID stops retransmitting its DREQ when the peer sends a new request for the
// same queue pair.
func TestWireCMStaleOrphan(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive, r, _ := s.established(l)
	s.server.End(passive)
	require.Len(t, s.server.wire().orphans, 1)
	require.Equal(t, cm.RejectStale, s.resendREQ(r))
	require.Empty(t, s.server.wire().orphans)
	require.Zero(t, s.resendREQ(r))
	s.server.Request(l)
}

// A request that the server has not answered becomes invalid if the peer uses its queue
// pair in another request.
func TestWireCMStaleRequest(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	s.sendREQ(r)
	passive, _ := s.server.Request(l)
	require.Equal(t, cm.RejectStale, s.resendREQ(r))
	require.Error(t, passive.Accept(nil))
	require.Zero(t, s.resendREQ(r))
	s.server.Request(l)
}

// When a connection has ended, the peer can use its queue pair in another request, even
// before the application closes the ID.
func TestWireCMSameQueuePairAgain(t *testing.T) {
	for name, end := range map[string]func(s *madPeer, l *cm.ID){
		"disconnected by the peer": func(s *madPeer, l *cm.ID) {
			passive, r, rep := s.established(l)
			var m wire.MAD
			(&wire.DREQ{LocalID: r.LocalID, RemoteID: rep.LocalID, RemoteQPN: rep.QPN}).Encode(&m, 1)
			s.send(&m)
			s.server.Want(cm.Disconnected, passive)
			require.NoError(s.t, passive.Disconnect(nil))
			s.server.Want(cm.TimewaitExit, passive)
		},
		"disconnected by this side": func(s *madPeer, l *cm.ID) {
			passive, r, rep := s.established(l)
			require.NoError(s.t, passive.Disconnect(nil))
			var m wire.MAD
			(&wire.DREP{LocalID: r.LocalID, RemoteID: rep.LocalID}).Encode(&m, 1)
			s.send(&m)
			s.server.Want(cm.Disconnected, passive)
			s.server.Want(cm.TimewaitExit, passive)
		},
		"refused": func(s *madPeer, l *cm.ID) {
			s.sendREQ(s.req(l.LocalAddr().Port()))
			passive, _ := s.server.Request(l)
			require.NoError(s.t, passive.Reject(nil))
		},
		"reply unanswered": func(s *madPeer, l *cm.ID) {
			s.sendREQ(s.req(l.LocalAddr().Port()))
			passive, _ := s.server.Request(l)
			s.accept(passive, nil)
			s.want(s.server, cm.Unreachable, passive)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMADPeer(t)
			l := s.listen(cm.TCP, 0)
			end(s, l)
			s.settle()
			require.Zero(t, s.resendREQ(s.req(l.LocalAddr().Port())))
			s.server.Request(l)
			s.server.Quiet()
		})
	}
}

// The client drops a REP if another connection already has the same communication ID of
// the peer. If another connection has the same queue pair of the peer, that connection
// ends as stale.
func TestWireCMReplyNamesAnother(t *testing.T) {
	w := newMADSim(t)
	w.copies = func(*wire.MAD, netip.Addr) int { return 0 }
	mux := w.client.mux
	connect := func(to netip.Addr) (*cm.ID, *conn) {
		id := w.connecting(cm.TCP, netip.AddrPortFrom(to, 7), nil)
		for _, c := range mux.conns {
			if c.remote == to && c.peerID == 0 {
				return id, c
			}
		}
		return nil, nil
	}
	reply := func(c *conn, id, qpn uint32) {
		rep := wire.REP{LocalID: id, RemoteID: c.ownID, CAGUID: 7, QPN: qpn}
		var m wire.MAD
		rep.Encode(&m, 1)
		w.inject(&m, c.remote, clientAddr)
		w.settle()
	}
	first, c := connect(serverAddr)
	reply(c, 5, 0x55)
	w.client.Want(cm.Established, first)

	// A peer at another address may have the same communication ID and queue pair.
	second, other := connect(otherAddr)
	reply(other, 5, 0x55)
	w.client.Want(cm.Established, second)
	require.Same(t, c, mux.byPeer[peerKey{serverAddr, 7, 5}])
	require.Same(t, c, mux.byQP[peerKey{serverAddr, 7, 0x55}])

	// Two connections of one peer can not have the same communication ID.
	third, own := connect(serverAddr)
	reply(own, 5, 0x56)
	w.client.Quiet()
	require.Same(t, c, mux.byPeer[peerKey{serverAddr, 7, 5}])
	reply(own, 6, 0x55)
	w.client.Want(cm.Established, third)
	require.ErrorIs(t, w.client.Want(cm.Disconnected, first).Err, cm.ErrStale)
	require.Same(t, own, mux.byQP[peerKey{serverAddr, 7, 0x55}])
	w.client.Quiet()
}
