//go:build linux

package madcm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWireCMConnect(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{
		PrivateData: []byte("hello"), ResponderResources: 3, InitiatorDepth: 5,
		FlowControl: true, RetryCount: 6, RNRRetryCount: 2,
	})
	passive, ev := w.request(l)
	require.Equal(t, padded("hello", 56), ev.Param.PrivateData, "a REQ has no length of the private data")
	ev.Param.PrivateData = nil
	require.Equal(t, cm.MessageParam{
		ResponderResources: 5, InitiatorDepth: 3,
		FlowControl: true, RetryCount: 6, RNRRetryCount: 2, QPNum: active.QP().Num(),
	}, ev.Param)
	require.Equal(t, active.LocalAddr(), passive.RemoteAddr())

	w.accept(passive, &cm.ConnParam{PrivateData: []byte("welcome"), ResponderResources: 4, InitiatorDepth: 1, RNRRetryCount: 7})
	require.Equal(t, verbs.StateRTS, passive.QP().State(), "the passive queue pair is ready before the reply is sent")
	ev = w.want(w.client, cm.Established, active)
	require.Equal(t, padded("welcome", 196), ev.Param.PrivateData)
	w.want(w.server, cm.Established, passive)
	cmtest.RequireQP(t, active.QP(), cmtest.WantQP{Served: 1, Outstanding: 4, Retry: 6, RNRRetry: 7, Peer: passive})
	cmtest.RequireQP(t, passive.QP(), cmtest.WantQP{Served: 4, Outstanding: 1, Retry: 6, RNRRetry: 2, Peer: active})

	mine, err := active.QP().Query()
	require.NoError(t, err)
	theirs, err := passive.QP().Query()
	require.NoError(t, err)
	require.Equal(t, mine.SQPSN, theirs.RQPSN)
	require.Equal(t, mine.RQPSN, theirs.SQPSN)
	require.Equal(t, verbs.MTU4096, mine.PathMTU, "the loopback interface supports the largest MTU")
	require.Equal(t, verbs.GIDFromAddr(serverAddr), mine.AH.DestGID)
	require.Equal(t, verbs.GIDFromAddr(clientAddr), theirs.AH.DestGID)

	cmtest.Exchange(t, w.client.Party, active.QP(), w.server.Party, passive.QP())
	cmtest.Exchange(t, w.server.Party, passive.QP(), w.client.Party, active.QP())
	w.disconnected(active, passive)
	w.quiet()
	require.Equal(t, []wire.Attribute{wire.AttrREQ, wire.AttrREP, wire.AttrRTU, wire.AttrDREQ, wire.AttrDREP}, w.sent)
}

func padded(s string, n int) []byte { return append([]byte(s), make([]byte, n-len(s))...) }

// A connection opens and closes even if a few messages are lost.
func TestWireCMLoss(t *testing.T) {
	for _, attr := range []wire.Attribute{wire.AttrREQ, wire.AttrREP, wire.AttrRTU, wire.AttrDREQ, wire.AttrDREP} {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%#x %d", uint16(attr), n), func(t *testing.T) {
				w := newMADSim(t)
				w.lose(attr, n)
				w.disconnected(w.connected())
				w.quiet()
			})
		}
	}
}

// A connection opens and closes if each datagram arrives twice.
func TestWireCMDuplicates(t *testing.T) {
	w := newMADSim(t)
	w.copies = func(*wire.MAD, netip.Addr) int { return 2 }
	w.disconnected(w.connected())
	w.quiet()
}

// Connections open and close even if datagrams are lost, duplicated and reordered at
// random. The logged seed reproduces a failure.
func TestWireCMSeeds(t *testing.T) {
	w := newMADSim(t)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w.copies = func(*wire.MAD, netip.Addr) int {
			rng.Shuffle(len(w.inFlight), func(i, j int) { w.inFlight[i], w.inFlight[j] = w.inFlight[j], w.inFlight[i] })
			return rng.IntN(3)
		}
		t.Log("seed", seed)
		active, passive := w.connected()
		w.disconnected(active, passive)
		w.quiet()
	}
}

// If no answer arrives, the client retransmits the REQ at growing intervals until the
// request times out.
func TestWireCMUnreachable(t *testing.T) {
	w := newMADSim(t)
	w.copies = func(*wire.MAD, netip.Addr) int { return 0 }
	began := w.clock.Now
	active := w.connecting(cm.TCP, netip.AddrPortFrom(serverAddr, 7), nil)
	ev := w.want(w.client, cm.Unreachable, active)
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
	require.Equal(t, connmgr.RequestTimeout, w.clock.Now.Sub(began))
	require.Less(t, len(w.sent), 40)
	require.Equal(t, wire.AttrREJ, w.sent[len(w.sent)-1], "the request is cancelled")
	w.quiet()
}

func TestWireCMReplyUnanswered(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.copies = func(*wire.MAD, netip.Addr) int { return 0 }
	began := w.clock.Now
	w.accept(passive, nil)
	w.want(w.server, cm.Unreachable, passive)
	require.Equal(t, connmgr.RTUTimeout, w.clock.Now.Sub(began))
}

// The server answers copies of a REQ with MRAs. So the client does not time out, even if
// the server's application answers only after ten minutes.
func TestWireCMSlowAccept(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	for began := w.clock.Now; w.clock.Now.Sub(began) < 10*time.Minute; {
		require.True(t, w.advance())
		w.settle()
		w.client.Quiet()
		w.server.Quiet()
	}
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
	require.Contains(t, w.sent, wire.AttrMRA)
}

// If the server's application never answers, the client times out after MaxServiceTime,
// as with the kernel's CM.
func TestWireCMNeverAnswered(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	began := w.clock.Now
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	ev := w.want(w.client, cm.Unreachable, active)
	require.Equal(t, connmgr.StatusTimedOut, ev.Status)
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
	require.Equal(t, connmgr.MaxServiceTime, w.clock.Now.Sub(began))
	require.Less(t, connmgr.MaxServiceTime, 17*time.Minute)
	require.Contains(t, w.sent, wire.AttrMRA)
	w.server.CreateQP(passive)
	w.settle()
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
	w.quiet()
}

// If the client answers the REP only with MRAs, the server times out after
// MaxServiceTime.
func TestWireCMRTUNeverSent(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	s.sendREQ(r)
	passive, _ := s.server.Request(l)
	began := s.clock.Now
	s.accept(passive, nil)
	var rep wire.REP
	rep.Decode(&s.received[len(s.received)-1])
	mra := wire.MRA{LocalID: r.LocalID, RemoteID: rep.LocalID, Received: wire.AnsweredREP, ServiceTimeout: serviceTimeout}
	var m wire.MAD
	mra.Encode(&m, 1)
	for range 100 {
		if s.send(&m); len(s.server.TC.Probe().Queued()) > 0 {
			break
		}
		require.True(t, s.advance())
		s.settle()
	}
	s.server.Want(cm.Unreachable, passive)
	require.Equal(t, connmgr.MaxServiceTime, s.clock.Now.Sub(began))
}

// In the binding of each side, the field Flow says which of the two sides use flow
// control.
func TestWireCMFlowControl(t *testing.T) {
	for _, said := range [][2]bool{{true, false}, {false, true}} {
		w := newMADSim(t)
		l := w.listen(cm.TCP, 0)
		active := w.connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{FlowControl: said[0]})
		passive, _ := w.request(l)
		w.accept(passive, &cm.ConnParam{FlowControl: said[1]})
		w.want(w.client, cm.Established, active)
		w.want(w.server, cm.Established, passive)
		require.Equal(t, connmgr.CreditFlow{Sends: said[0], Receives: said[1]}, w.client.Dev.Binding(active.QP()).Flow)
		require.Equal(t, connmgr.CreditFlow{Sends: said[1], Receives: said[0]}, w.server.Dev.Binding(passive.QP()).Flow)
	}
}

// If the RTU is lost, the client's first data packet confirms the REP.
func TestWireCMDataConfirmsReply(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.lose(wire.AttrRTU, 1)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	began := w.clock.Now
	cmtest.Exchange(t, w.client.Party, active.QP(), w.server.Party, passive.QP())
	w.server.Want(cm.Established, passive)
	require.Equal(t, began, w.clock.Now)
}

// A client that destroys its ID before the server has answered cancels its request.
func TestWireCMClientLeaves(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.client.End(active)
	w.settle()
	w.server.CreateQP(passive)
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrPeerGone)
	w.quiet()
}

// Both sides send their packets with the type of service that the active side has set.
func TestWireCMTypeOfService(t *testing.T) {
	const tos = 0x68
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.client.ID(cm.TCP)
	require.NoError(t, active.SetTOS(tos))
	require.NoError(t, active.ResolveAddr(netip.AddrPortFrom(clientAddr, 0), l.LocalAddr(), time.Second))
	w.client.Want(cm.AddrResolved, active)
	require.NoError(t, active.ResolveRoute(time.Second))
	w.client.Want(cm.RouteResolved, active)
	w.client.CreateQP(active)
	require.NoError(t, active.Connect(nil))
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
	for _, id := range []*cm.ID{active, passive} {
		attr, err := id.QP().Query()
		require.NoError(t, err)
		require.EqualValues(t, tos, attr.AH.TrafficClass)
	}
	cmtest.Exchange(t, w.client.Party, active.QP(), w.server.Party, passive.QP())
	w.disconnected(active, passive)
}

// Destroying an established ID sends a DREQ. If the DREQ is lost, it is retransmitted.
func TestWireCMDestroyEstablished(t *testing.T) {
	w := newMADSim(t)
	active, passive := w.connected()
	w.lose(wire.AttrDREQ, 2)
	w.client.End(active)
	require.Zero(t, w.want(w.server, cm.Disconnected, passive).Status)
	require.NoError(t, passive.Disconnect(nil))
	w.want(w.server, cm.TimewaitExit, passive)
	w.quiet()
	require.Empty(t, w.client.wire().orphans)
}

// A DREQ that is retransmitted, also by an orphan, keeps its private data.
func TestWireCMDisconnectData(t *testing.T) {
	w := newMADSim(t)
	active, passive := w.connected()
	w.lose(wire.AttrDREQ, 3)
	require.NoError(t, active.Disconnect([]byte("bye")))
	w.client.End(active)
	require.Equal(t, padded("bye", 220), w.want(w.server, cm.Disconnected, passive).Param.PrivateData)
	require.NoError(t, passive.Disconnect(nil))
	w.want(w.server, cm.TimewaitExit, passive)
	w.quiet()
}

// The DREQ of a destroyed ID is retransmitted for a limited time.
func TestWireCMOrphansEnd(t *testing.T) {
	w := newMADSim(t)
	active, _ := w.connected()
	w.copies = func(*wire.MAD, netip.Addr) int { return 0 }
	w.client.End(active)
	require.Len(t, w.client.wire().orphans, 1)
	w.quiet()
	require.Empty(t, w.client.wire().orphans)
}

// Closing a channel ends its orphans.
func TestWireCMOrphansEndWithTheirChannel(t *testing.T) {
	w := newMADSim(t)
	active, passive := w.connected()
	home := w.client.TC
	other, err := cm.OpenChannel(w.client.Party)
	require.NoError(t, err)
	tc := w.client.TC
	orphans := w.client.wire().orphans
	w.client.TC = home
	tc.Probe().SetClock(home.Probe().Clock())
	require.NoError(t, active.Migrate(other))
	w.lose(wire.AttrDREQ, 1)
	w.client.End(active)
	require.Len(t, orphans, 1)
	require.Equal(t, []netip.Addr{clientAddr}, w.client.ports.Addrs())
	require.NoError(t, other.Close())
	require.Empty(t, orphans)
	require.Empty(t, w.client.mux.conns)
	w.quiet()
	require.Empty(t, w.client.ports.Addrs(), "the UDP port is free")
	w.server.End(passive)
}

func TestWireCMDisconnectByBoth(t *testing.T) {
	w := newMADSim(t)
	active, passive := w.connected()
	require.NoError(t, active.Disconnect(nil))
	require.NoError(t, passive.Disconnect(nil))
	require.Zero(t, w.want(w.client, cm.Disconnected, active).Status)
	require.Zero(t, w.want(w.server, cm.Disconnected, passive).Status)
	w.want(w.client, cm.TimewaitExit, active)
	w.want(w.server, cm.TimewaitExit, passive)
	w.quiet()
}

func TestWireCMMigrate(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	w.settle() // The request is queued.
	other, err := cm.OpenChannel(w.server.Party)
	require.NoError(t, err)
	w.server.TC.Probe().SetClock(func() time.Time { return w.clock.Now })
	require.NoError(t, l.Migrate(other))
	before := w.server.Channel
	w.server.Channel = other
	t.Cleanup(func() { require.NoError(t, before.Close()) })
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
	w.disconnected(active, passive)
}
