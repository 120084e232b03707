//go:build linux

package madcm

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A madPeer sends messages from the client's address to the server, and records the
// server's answers.
type madPeer struct {
	*madSim
	received []wire.MAD
}

// newMADPeer starts a simulation whose client is a madPeer.
func newMADPeer(t *testing.T, change ...func(*Config)) *madPeer {
	t.Helper()
	s := &madPeer{madSim: newMADSim(t, change...)}
	s.copies = func(m *wire.MAD, to netip.Addr) int {
		if to == clientAddr {
			s.received = append(s.received, *m)
		}
		return 0
	}
	return s
}

// send sends a message to the server, and returns the server's answers.
func (s *madPeer) send(m *wire.MAD) []wire.MAD {
	s.t.Helper()
	s.received = nil
	s.inject(m, clientAddr, serverAddr)
	s.settle()
	return s.received
}

// req returns a valid REQ from the client's address to a port of the server.
func (s *madPeer) req(port uint16) *wire.REQ { return s.reqFrom(clientAddr, port) }

// reqFrom returns a valid REQ from an address to a port of the server.
func (s *madPeer) reqFrom(from netip.Addr, port uint16) *wire.REQ {
	var m wire.MAD
	encodeREQ(&m, &connmgr.REQ{
		Endpoints: connmgr.Endpoints{Src: netip.AddrPortFrom(from, 40000), Dst: netip.AddrPortFrom(serverAddr, port)},
		QPParams:  connmgr.QPParams{QPN: 0x123, PSN: 0xabcdef, ResponderResources: 4, InitiatorDepth: 5, RNRRetry: 6},
		Retry:     7, MTU: verbs.MTU1024, AckTimeout: 19,
	}, 0x1122334455667788, 0x99aabbcc)
	var r wire.REQ
	r.Decode(&m)
	return &r
}

func (s *madPeer) sendREQ(r *wire.REQ) []wire.MAD {
	s.t.Helper()
	var m wire.MAD
	r.Encode(&m, 0x1234)
	return s.send(&m)
}

// requireREJ requires that there is one answer, and that it is a REJ of a REQ.
func (s *madPeer) requireREJ(answers []wire.MAD, reason cm.RejectReason) {
	s.t.Helper()
	require.Len(s.t, answers, 1)
	require.Equal(s.t, wire.AttrREJ, answers[0].Attribute())
	require.EqualValues(s.t, 0x1234, answers[0].TID())
	var r wire.REJ
	r.Decode(&answers[0])
	require.Equal(s.t, reason, cm.RejectReason(r.Reason))
	require.Equal(s.t, wire.AnsweredREQ, r.Rejected)
	require.Zero(s.t, r.LocalID)
	require.Equal(s.t, uint32(0x99aabbcc), r.RemoteID)
}

func TestWireCMRefusals(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	port := l.LocalAddr().Port()
	for name, test := range map[string]struct {
		change func(*wire.REQ)
		reason cm.RejectReason
	}{
		"no listener":        {func(r *wire.REQ) { r.ServiceID++ }, cm.RejectInvalidServiceID},
		"not an IP service":  {func(r *wire.REQ) { r.ServiceID = 7 }, cm.RejectInvalidServiceID},
		"lookup port space":  {func(r *wire.REQ) { r.ServiceID = wire.NewServiceID(uint16(cm.UDP), port) }, cm.RejectInvalidServiceID},
		"transport":          {func(r *wire.REQ) { r.Transport = 1 }, cm.RejectInvalidTransport},
		"local GID":          {func(r *wire.REQ) { r.Primary.LocalGID[15]++ }, cm.RejectInvalidGID},
		"remote GID":         {func(r *wire.REQ) { r.Primary.RemoteGID[15]++ }, cm.RejectInvalidGID},
		"no MTU":             {func(r *wire.REQ) { r.MTU = 0 }, cm.RejectInvalidMTU},
		"large MTU":          {func(r *wire.REQ) { r.MTU = 6 }, cm.RejectInvalidMTU},
		"no queue pair":      {func(r *wire.REQ) { r.QPN = 0 }, cm.RejectNoQP},
		"queue pair 1":       {func(r *wire.REQ) { r.QPN = 1 }, cm.RejectNoQP},
		"multicast":          {func(r *wire.REQ) { r.QPN = wire.MulticastQPN }, cm.RejectNoQP},
		"header version":     {func(r *wire.REQ) { r.PrivateData[0] = 1 }, cm.RejectConsumer},
		"IP version":         {func(r *wire.REQ) { r.PrivateData[1] = 0x50 }, cm.RejectConsumer},
		"header source":      {func(r *wire.REQ) { r.PrivateData[19]++ }, cm.RejectConsumer},
		"header destination": {func(r *wire.REQ) { r.PrivateData[35]++ }, cm.RejectConsumer},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.req(port)
			test.change(r)
			s.requireREJ(s.sendREQ(r), test.reason)
			s.server.Quiet()
		})
	}
	require.Empty(t, s.server.mux.conns, "refused requests leave no connection")
}

// If a listener has the port only at another address, the REQ is refused with
// RejectConsumer. The kernel refuses such a REQ with the same reason.
func TestWireCMListenerOnAnotherAddress(t *testing.T) {
	s := newMADPeer(t)
	l := s.server.Listen(cm.TCP, "127.8.0.3:0", 0)
	// This ID opens the UDP port at serverAddr, so that the server receives the REQ. It does
	// not listen.
	other := s.server.ID(cm.TCP)
	require.NoError(t, other.ResolveAddr(netip.AddrPortFrom(serverAddr, 0), netip.AddrPortFrom(clientAddr, 7), 1))
	s.server.Want(cm.AddrResolved, other)
	s.requireREJ(s.sendREQ(s.req(l.LocalAddr().Port())), cm.RejectConsumer)
}

// The server refuses a REQ if the path MTU exceeds the MTU of the server's interface.
func TestWireCMPathTooLong(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	s.server.mux.ports[serverAddr].mtu = verbs.MTU512
	answers := s.sendREQ(s.req(l.LocalAddr().Port()))
	s.requireREJ(answers, cm.RejectInvalidMTU)
	var r wire.REJ
	r.Decode(&answers[0])
	require.EqualValues(t, 1, r.InfoLength)
	require.Equal(t, verbs.MTU512, verbs.MTU(r.Info[0]))
}

func TestWireCMRepeatedRequest(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	require.Empty(t, s.sendREQ(r))
	passive, ev := s.server.Request(l)
	require.EqualValues(t, 0x123, ev.Param.QPNum)

	// Before the call of Accept, the server answers a copy of the REQ with an MRA. After it,
	// the server answers a copy with the same REP.
	answers := s.sendREQ(r)
	require.Len(t, answers, 1)
	var mra wire.MRA
	mra.Decode(&answers[0])
	require.Equal(t, wire.AttrMRA, answers[0].Attribute())
	require.Equal(t, wire.AnsweredREQ, mra.Received)
	require.EqualValues(t, r.LocalID, mra.RemoteID)

	s.server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	first := slices.Clone(s.received[len(s.received)-1:])
	require.Equal(t, wire.AttrREP, first[0].Attribute())
	require.Equal(t, first, s.sendREQ(r))
	s.server.Quiet()

	attr, err := passive.QP().Query()
	require.NoError(t, err)
	require.EqualValues(t, 0xabcdef, attr.SQPSN, "the first PSN that the peer expects")
	require.Equal(t, verbs.MTU1024, attr.PathMTU)
	require.EqualValues(t, 19, attr.Timeout)
}

func TestWireCMRepeatedRejected(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	s.sendREQ(r)
	passive, _ := s.server.Request(l)
	require.NoError(t, passive.Reject([]byte("no")))
	first := slices.Clone(s.received[len(s.received)-1:])
	require.Equal(t, wire.AttrREJ, first[0].Attribute())
	require.Equal(t, first, s.sendREQ(r))
	s.server.Quiet()
}

// RejectNoResources sends a REJ with the reason 3 and without private data.
func TestWireCMRejectNoResources(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	s.sendREQ(s.req(l.LocalAddr().Port()))
	passive, _ := s.server.Request(l)
	require.NoError(t, passive.RejectNoResources())
	var rej wire.REJ
	last := &s.received[len(s.received)-1]
	require.Equal(t, wire.AttrREJ, last.Attribute())
	rej.Decode(last)
	require.EqualValues(t, 3, rej.Reason)
	require.Equal(t, wire.AnsweredREQ, rej.Rejected)
	require.Equal(t, make([]byte, len(rej.PrivateData)), rej.PrivateData[:])
}

// established opens a connection between the madPeer and the server. It returns the
// server's ID, the REQ and the REP.
func (s *madPeer) established(l *cm.ID) (*cm.ID, *wire.REQ, *wire.REP) {
	s.t.Helper()
	r := s.req(l.LocalAddr().Port())
	s.sendREQ(r)
	passive, _ := s.server.Request(l)
	s.server.CreateQP(passive)
	require.NoError(s.t, passive.Accept(nil))
	var rep wire.REP
	rep.Decode(&s.received[len(s.received)-1])
	rtu := wire.RTU{LocalID: r.LocalID, RemoteID: rep.LocalID}
	var m wire.MAD
	rtu.Encode(&m, 1)
	require.Empty(s.t, s.send(&m))
	s.server.Want(cm.Established, passive)
	return passive, r, &rep
}

func TestWireCMUnknownConnection(t *testing.T) {
	s := newMADPeer(t)
	s.listen(cm.TCP, 0)
	var m wire.MAD
	dreq := wire.DREQ{LocalID: 5, RemoteID: 6, RemoteQPN: 7}
	dreq.Encode(&m, 0x77)
	answers := s.send(&m)
	require.Len(t, answers, 1)
	require.Equal(t, wire.AttrDREP, answers[0].Attribute())
	require.EqualValues(t, 0x77, answers[0].TID())
	var drep wire.DREP
	drep.Decode(&answers[0])
	require.Equal(t, wire.DREP{LocalID: 6, RemoteID: 5}, drep)

	rep := wire.REP{LocalID: 5, RemoteID: 6, QPN: 7}
	rep.Encode(&m, 0x78)
	answers = s.send(&m)
	require.Len(t, answers, 1)
	var rej wire.REJ
	rej.Decode(&answers[0])
	require.Equal(t, wire.REJ{LocalID: 6, RemoteID: 5, Rejected: wire.AnsweredREP, Reason: uint16(cm.RejectInvalidCommID)}, rej)

	for _, attr := range []func(){
		func() { (&wire.RTU{RemoteID: 6}).Encode(&m, 1) },
		func() { (&wire.DREP{RemoteID: 6}).Encode(&m, 1) },
		func() { (&wire.MRA{RemoteID: 6}).Encode(&m, 1) },
		func() { (&wire.REJ{RemoteID: 6}).Encode(&m, 1) },
		func() { (&wire.SIDRREP{RequestID: 6}).Encode(&m, 1) },
	} {
		attr()
		require.Empty(t, s.send(&m))
	}
	s.server.Quiet()
}

// A DREQ ends a connection only if its source address, its communication IDs and its
// queue pair are those of the peer.
func TestWireCMSpoofed(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive, r, rep := s.established(l)
	good := wire.DREQ{LocalID: r.LocalID, RemoteID: rep.LocalID, RemoteQPN: rep.QPN}
	var m wire.MAD
	good.Encode(&m, 1)
	s.inject(&m, netip.MustParseAddr("127.8.0.9"), serverAddr)
	for _, change := range []func(*wire.DREQ){
		func(d *wire.DREQ) { d.LocalID++ },
		func(d *wire.DREQ) { d.RemoteQPN++ },
	} {
		d := good
		change(&d)
		d.Encode(&m, 1)
		s.send(&m)
	}
	s.server.Quiet()
	good.Encode(&m, 1)
	require.Empty(t, s.send(&m), "the application has not answered yet")
	s.server.Want(cm.Disconnected, passive)
	require.NoError(t, passive.Disconnect(nil))
	require.Equal(t, wire.AttrDREP, s.received[0].Attribute())
	require.Equal(t, wire.AttrDREP, s.send(&m)[0].Attribute(), "a copy of the DREQ gets the same answer")
}

// A peer can cancel its request with a REJ that does not contain the communication ID of
// the server.
func TestWireCMTimeoutREJ(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	s.sendREQ(r)
	passive, _ := s.server.Request(l)
	rej := wire.REJ{LocalID: r.LocalID, Rejected: wire.AnsweredOther, Reason: uint16(cm.RejectTimeout), InfoLength: 8}
	binary.BigEndian.PutUint64(rej.Info[:], r.CAGUID)
	var m wire.MAD
	rej.Encode(&m, 1)
	require.Empty(t, s.send(&m))
	s.server.CreateQP(passive)
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
}

// During a flood, the backlog limits the number of unanswered requests. After the flood,
// new requests are accepted.
func TestWireCMFlood(t *testing.T) {
	const backlog = 16
	s := newMADPeer(t)
	l := s.listen(cm.TCP, backlog)
	r := s.req(l.LocalAddr().Port())
	var m wire.MAD
	for i := range 10_000 {
		r.CAGUID, r.LocalID, r.QPN = uint64(i), uint32(i+1), uint32(i+2)
		r.Encode(&m, 1)
		s.inject(&m, clientAddr, serverAddr)
		if i%100 == 0 {
			s.settle()
		}
	}
	mux := s.server.mux
	require.Len(t, mux.conns, backlog)
	require.Len(t, mux.byPeer, backlog)
	require.Len(t, mux.byQP, backlog)
	require.LessOrEqual(t, s.server.wire().inbox.requests.total, maxRequests)
	for s.server.wire().inbox.waiting() > 0 {
		s.settle()
	}
	for range backlog {
		passive, _ := s.server.Request(l)
		require.NoError(t, passive.Close())
	}
	s.server.Quiet()
	require.Empty(t, mux.conns)
	require.Empty(t, mux.byPeer)
	require.Empty(t, mux.byQP)
	require.Empty(t, s.sendREQ(s.req(l.LocalAddr().Port())))
	s.server.Request(l)
}

// FuzzWireCM sends any message to a server. The message must cause no panic, and no event
// of an open connection.
func FuzzWireCM(f *testing.F) {
	for attr := range uint16(12) {
		f.Add(attr+0x0f, []byte("some bytes"))
	}
	f.Fuzz(func(t *testing.T, attr uint16, data []byte) {
		s := newMADPeer(t)
		l := s.listen(cm.TCP, 0)
		s.listen(cm.UDP, 0)
		s.established(l)
		var m wire.MAD
		(&wire.RTU{}).Encode(&m, 1)
		binary.BigEndian.PutUint16(m[16:], attr)
		copy(m[wire.MADDataOffset:], data)
		s.send(&m)
		for len(s.server.TC.Probe().Queued()) > 0 {
			ev := s.server.Next()
			require.Equal(t, cm.ConnectRequest, ev.Type)
			require.NoError(t, ev.Ack())
			s.server.End(ev.ID)
		}
	})
}

// If the peer's address moves to the client's host, the request fails and is not
// retransmitted, because a process of another user could receive it.
func TestNoRequestToThisHost(t *testing.T) {
	w := newMADSim(t)
	w.lose(wire.AttrREQ, math.MaxInt)
	id := w.connecting(cm.TCP, netip.AddrPortFrom(serverAddr, 7), nil)
	// A device with the local path treats the loopback address serverAddr as an address
	// of this host.
	w.client.mux.AlsoLocal = true
	w.await(w.client)
	ev := w.client.Want(cm.Rejected, id)
	require.ErrorContains(t, ev.Err, connmgr.ErrLocalOnly.Error())
	require.Len(t, w.sent, 1, "nothing was sent after the first request")
	w.quiet()
}

// A REJ ends an established connection only if it contains the communication IDs of both
// sides.
func TestWireCMForgedRejects(t *testing.T) {
	w := newMADSim(t)
	active, passive := w.connected()
	var a, p *conn
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
		lateRTU(t, func(_ *madPeer, id *cm.ID) { require.NoError(t, id.Disconnect(nil)) })
	})
	t.Run("closed", func(t *testing.T) {
		lateRTU(t, func(s *madPeer, id *cm.ID) {
			require.NoError(t, id.Disconnect(nil))
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
