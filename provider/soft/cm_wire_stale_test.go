//go:build linux

package soft

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// otherAddr is a third host.
var otherAddr = netip.MustParseAddr("127.8.0.9")

// askAgain sends a request with the queue pair of r and a new communication id, and
// returns the reason for which it was refused, or 0.
func (s *stranger) askAgain(r *wire.REQ) cm.RejectReason {
	s.t.Helper()
	again := *r
	again.LocalID++
	answers := s.ask(&again)
	if len(answers) == 0 {
		return 0
	}
	require.Len(s.t, answers, 1)
	var rej wire.REJ
	rej.Decode(&answers[0])
	return cm.RejectReason(rej.Reason)
}

// A peer that uses a queue pair for a new connection has forgotten the old one. Its
// first request is refused; when the old connection has ended, it gets in.
func TestWireCMStale(t *testing.T) {
	s := newStranger(t)
	l := s.listen(cm.TCP, 0)
	passive, r, _ := s.established(l)
	require.Equal(t, cm.RejectStale, s.askAgain(r))
	ev := s.server.want(cm.Disconnected, passive)
	require.Zero(t, ev.Status)
	require.ErrorIs(t, ev.Err, cm.ErrStale)
	require.NoError(t, passive.Disconnect())
	s.server.want(cm.TimewaitExit, passive)
	require.Zero(t, s.askAgain(r))
	s.server.request(l)
}

// A request from a third host may name the GUID and the queue pair of a peer: that
// ends nothing of the peer's.
func TestWireCMStaleNeedsTheAddress(t *testing.T) {
	s := newStranger(t)
	l := s.listen(cm.TCP, 0)
	passive, r, rep := s.established(l)
	forged := s.reqFrom(otherAddr, l.LocalAddr().Port())
	require.Equal(t, r.CAGUID, forged.CAGUID)
	require.Equal(t, r.QPN, forged.QPN)
	var m wire.MAD
	for range 2 { // It is a request of its own, once.
		forged.Encode(&m, 1)
		s.inject(&m, otherAddr, serverAddr)
		s.settle()
	}
	s.server.request(l)
	s.server.quiet()
	dreq := wire.DREQ{LocalID: r.LocalID, RemoteID: rep.LocalID, RemoteQPN: rep.QPN}
	dreq.Encode(&m, 1)
	s.say(&m)
	require.NoError(t, s.server.want(cm.Disconnected, passive).Err)
}

// A peer that has forgotten a connection does not answer the wish to end it.
func TestWireCMStaleOrphan(t *testing.T) {
	s := newStranger(t)
	l := s.listen(cm.TCP, 0)
	passive, r, _ := s.established(l)
	s.server.end(passive)
	require.Len(t, s.server.tc.orphans, 1)
	require.Equal(t, cm.RejectStale, s.askAgain(r))
	require.Empty(t, s.server.tc.orphans)
	require.Zero(t, s.askAgain(r))
	s.server.request(l)
}

// A request that was not answered is stale, too, when the peer asks for another
// connection with the queue pair.
func TestWireCMStaleRequest(t *testing.T) {
	s := newStranger(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	s.ask(r)
	passive, _ := s.server.request(l)
	require.Equal(t, cm.RejectStale, s.askAgain(r))
	require.Error(t, passive.Accept(nil))
	require.Zero(t, s.askAgain(r))
	s.server.request(l)
}

// The queue pair of a connection that is over can be used for the next one, although
// the ID of the old one is still there.
func TestWireCMSameQueuePairAgain(t *testing.T) {
	for name, end := range map[string]func(s *stranger, l *cm.ID){
		"disconnected by the peer": func(s *stranger, l *cm.ID) {
			passive, r, rep := s.established(l)
			var m wire.MAD
			(&wire.DREQ{LocalID: r.LocalID, RemoteID: rep.LocalID, RemoteQPN: rep.QPN}).Encode(&m, 1)
			s.say(&m)
			s.server.want(cm.Disconnected, passive)
			require.NoError(s.t, passive.Disconnect())
			s.server.want(cm.TimewaitExit, passive)
		},
		"disconnected by this side": func(s *stranger, l *cm.ID) {
			passive, r, rep := s.established(l)
			require.NoError(s.t, passive.Disconnect())
			var m wire.MAD
			(&wire.DREP{LocalID: r.LocalID, RemoteID: rep.LocalID}).Encode(&m, 1)
			s.say(&m)
			s.server.want(cm.Disconnected, passive)
			s.server.want(cm.TimewaitExit, passive)
		},
		"refused": func(s *stranger, l *cm.ID) {
			s.ask(s.req(l.LocalAddr().Port()))
			passive, _ := s.server.request(l)
			require.NoError(s.t, passive.Reject(nil))
		},
		"reply unanswered": func(s *stranger, l *cm.ID) {
			s.ask(s.req(l.LocalAddr().Port()))
			passive, _ := s.server.request(l)
			s.accept(passive, nil)
			s.want(s.server, cm.Unreachable, passive)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t)
			l := s.listen(cm.TCP, 0)
			end(s, l)
			s.settle()
			require.Zero(t, s.askAgain(s.req(l.LocalAddr().Port())))
			s.server.request(l)
			s.server.quiet()
		})
	}
}

// A peer tells in its reply who it is. What it says there concerns no connection to
// another address, and none of its own that it is not about.
func TestWireCMReplyNamesAnother(t *testing.T) {
	w := newMADWorld(t)
	w.fate = func(*wire.MAD, netip.Addr) int { return 0 }
	x := w.client.p.dev.mads
	connect := func(to netip.Addr) (*cm.ID, *wireCarrier) {
		id := w.connecting(cm.TCP, netip.AddrPortFrom(to, 7), nil)
		for _, c := range x.carriers {
			if c.remote == to && c.peer == 0 {
				return id, c
			}
		}
		return nil, nil
	}
	reply := func(c *wireCarrier, id, qpn uint32) {
		rep := wire.REP{LocalID: id, RemoteID: c.own, CAGUID: 7, QPN: qpn}
		var m wire.MAD
		rep.Encode(&m, 1)
		w.inject(&m, c.remote, clientAddr)
		w.settle()
	}
	first, c := connect(serverAddr)
	reply(c, 5, 0x55)
	w.client.want(cm.Established, first)

	// Another address may have the same numbers.
	second, other := connect(otherAddr)
	reply(other, 5, 0x55)
	w.client.want(cm.Established, second)
	require.Same(t, c, x.byPeer[peerKey{serverAddr, 7, 5}])
	require.Same(t, c, x.byQP[peerKey{serverAddr, 7, 0x55}])

	// At one address a communication id is of one connection, and a queue pair, too.
	third, own := connect(serverAddr)
	reply(own, 5, 0x56)
	w.client.quiet()
	require.Same(t, c, x.byPeer[peerKey{serverAddr, 7, 5}])
	reply(own, 6, 0x55)
	w.client.want(cm.Established, third)
	require.ErrorIs(t, w.client.want(cm.Disconnected, first).Err, cm.ErrStale)
	require.Same(t, own, x.byQP[peerKey{serverAddr, 7, 0x55}])
	w.client.quiet()
}
