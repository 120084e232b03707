//go:build linux

package madcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWireCMLookup(t *testing.T) {
	for _, lost := range []wire.Attribute{0, wire.AttrSIDRREQ, wire.AttrSIDRREP} {
		w := newMADSim(t)
		w.lose(lost, 2)
		l := w.listen(cm.UDP, 0)
		active := w.connecting(cm.UDP, l.LocalAddr(), &cm.ConnParam{PrivateData: []byte("who")})
		passive, ev := w.request(l)
		require.Equal(t, padded("who", 180), ev.Param.PrivateData)
		w.accept(passive, &cm.ConnParam{PrivateData: []byte("me")})
		ev = w.want(w.client, cm.Established, active)
		require.Equal(t, padded("me", 136), ev.Param.PrivateData)
		require.Equal(t, passive.QP().Num(), ev.UD.QPN)
		require.EqualValues(t, cm.DefaultQKey, ev.UD.QKey)
		require.Equal(t, verbs.GIDFromAddr(serverAddr), ev.UD.AH.DestGID)
		w.quiet()
	}
}

// A REJ with private data comes from the peer's application. A REJ without private data
// comes from the peer's system.
func TestWireCMRefused(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		w := newMADSim(t)
		l := w.listen(ps, 0)
		for _, private := range []string{"", "no"} {
			active := w.connecting(ps, l.LocalAddr(), nil)
			passive, _ := w.request(l)
			require.NoError(t, passive.Reject([]byte(private)))
			w.await(w.client)
			w.client.WantRefusal(active, private != "", padded(private, cm.MaxPrivateData(ps, cm.MessageReject)))
		}
	})
}

func TestWireCMLookupNoListener(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.UDP, l.LocalAddr(), nil)
	require.EqualValues(t, cm.SIDRUnsupported, w.want(w.client, cm.Unreachable, active).Status)
}

func TestWireCMLookupUnanswered(t *testing.T) {
	w := newMADSim(t)
	w.lose(wire.AttrSIDRREQ, 1000)
	began := w.clock.Now
	active := w.connecting(cm.UDP, w.listen(cm.UDP, 0).LocalAddr(), nil)
	require.Equal(t, connmgr.StatusTimedOut, w.want(w.client, cm.Unreachable, active).Status)
	require.Equal(t, connmgr.SIDRTimeout, w.clock.Now.Sub(began))
	require.Equal(t, verbs.StateRTS, active.QP().State())
	w.quiet()
	require.NotContains(t, w.sent, wire.AttrREJ, "the protocol has no REJ for a lookup")
}

// If an ID is closed while its SIDR request is unanswered, it sends nothing, because the
// protocol has no message to cancel a SIDR request.
func TestWireCMLookupClosed(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.UDP, 0)
	active := w.connecting(cm.UDP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.client.End(active)
	w.quiet()
	w.server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	require.Equal(t, verbs.StateRTS, passive.QP().State())
	w.quiet()
	require.NotContains(t, w.sent, wire.AttrREJ)
}

// A REJ does not end a SIDR request, even if it contains the right communication ID.
func TestWireCMLookupIgnoresREJ(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.UDP, 0)
	active := w.connecting(cm.UDP, l.LocalAddr(), nil)
	var own uint32
	for own = range w.client.mux.conns {
	}
	passive, _ := w.request(l)
	var m wire.MAD
	r := wire.REJ{RemoteID: own, Rejected: wire.AnsweredREQ, Reason: uint16(cm.RejectConsumer)}
	r.Encode(&m, tid(own))
	w.inject(&m, serverAddr, clientAddr)
	w.settle()
	w.client.Quiet()
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
}

// SIDR requests beyond the backlog are refused at once.
func TestWireCMLookupBacklog(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.UDP, 1)
	w.connecting(cm.UDP, l.LocalAddr(), nil)
	second := w.connecting(cm.UDP, l.LocalAddr(), nil)
	require.EqualValues(t, cm.SIDRReject, w.want(w.client, cm.Unreachable, second).Status)
}

// Both applications use queue pairs that CreateQP has not made. The connection is
// established when the active side calls Establish.
func TestWireCMExternal(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.resolved(l)
	mine, theirs := w.client.OwnQP(), w.server.OwnQP()
	require.NoError(t, active.Connect(&cm.ConnParam{QPNum: mine.Num()}))
	passive, _ := w.request(l)
	cmside.Drive(t, passive, theirs, verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
	require.NoError(t, passive.Accept(&cm.ConnParam{QPNum: theirs.Num()}))
	w.want(w.client, cm.ConnectResponse, active)

	// The client answers a retransmitted REP with an MRA.
	for range 5 {
		w.advance()
		w.settle()
	}
	require.Contains(t, w.sent, wire.AttrMRA)
	cmside.Drive(t, active, mine, verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
	require.NoError(t, active.Establish())
	w.want(w.server, cm.Established, passive)
	cmtest.Exchange(t, w.client.Party, mine, w.server.Party, theirs)
	w.disconnected(active, passive)
	w.quiet()
}
