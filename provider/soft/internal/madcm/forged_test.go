//go:build linux

package madcm

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A REJ ends an established connection only if it contains the communication IDs of both
// sides.
func TestWireCMForgedRejects(t *testing.T) {
	w := newMADSim(t)
	active, passive := w.connected()
	var a, p *madConn
	for _, c := range w.client.mux.conns {
		a = c
	}
	for _, c := range w.server.mux.conns {
		p = c
	}
	timeout := wire.REJ{LocalID: a.ownID, Reason: uint16(cm.RejectTimeout), Rejected: wire.AnsweredOther, InfoLength: 8}
	binary.BigEndian.PutUint64(timeout.Info[:], w.client.mux.Attr.NodeGUID)
	var m wire.MAD
	for _, forged := range []struct {
		rej      wire.REJ
		from, to netip.Addr
	}{
		{wire.REJ{RemoteID: p.ownID, Reason: uint16(cm.RejectConsumer)}, clientAddr, serverAddr},
		{wire.REJ{RemoteID: p.ownID, LocalID: a.ownID + 1, Reason: uint16(cm.RejectConsumer)}, clientAddr, serverAddr},
		{wire.REJ{RemoteID: a.ownID, Reason: uint16(cm.RejectConsumer)}, serverAddr, clientAddr},
		{timeout, clientAddr, serverAddr},
	} {
		forged.rej.Encode(&m, 1)
		w.inject(&m, forged.from, forged.to)
		w.settle()
		w.client.Quiet()
		w.server.Quiet()
	}
	cmtest.Exchange(t, w.client.Party, active.QP(), w.server.Party, passive.QP())
	(&wire.REJ{RemoteID: p.ownID, LocalID: a.ownID, Reason: uint16(cm.RejectConsumer)}).Encode(&m, 1)
	w.inject(&m, clientAddr, serverAddr)
	w.want(w.server, cm.Disconnected, passive)
}

// A late RTU does not stop the retransmission of a DREQ.
func TestWireCMLateRTU(t *testing.T) {
	t.Run("disconnected", func(t *testing.T) {
		lateRTU(t, func(_ *madPeer, id *cm.ID) { require.NoError(t, id.Disconnect()) })
	})
	t.Run("closed", func(t *testing.T) {
		lateRTU(t, func(s *madPeer, id *cm.ID) {
			require.NoError(t, id.Disconnect())
			s.server.End(id)
		})
	})
}

func lateRTU(t *testing.T, leave func(*madPeer, *cm.ID)) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive := s.requestFrom(l, 0)
	s.accept(passive, nil)
	var rep wire.REP
	rep.Decode(&s.received[len(s.received)-1])
	require.NoError(t, passive.Notify(verbs.AsyncCommEst))
	s.want(s.server, cm.Established, passive)
	leave(s, passive)
	s.settle()
	var m wire.MAD
	(&wire.RTU{LocalID: s.req(l.LocalAddr().Port()).LocalID, RemoteID: rep.LocalID}).Encode(&m, 1)
	s.send(&m)
	before := len(s.sent)
	s.clock.Now = s.clock.Now.Add(firstInterval)
	s.settle()
	require.Contains(t, s.sent[before:], wire.AttrDREQ)
}
