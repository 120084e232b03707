//go:build linux

package connmgr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// If a peer requests more READs and atomics than this side allows, the numbers are
// lowered to the limits of this side.
func TestNegotiationLimits(t *testing.T) {
	var mine negotiation
	mine.setPeer(&QPParams{QPN: 5, PSN: 6, ResponderResources: 200, InitiatorDepth: 200, RNRRetry: 3}, 16, 8)
	require.Equal(t, negotiation{peerQPN: 5, peerPSN: 6, resources: 16, depth: 8, rnrRetry: 3}, mine)
	mine.setPeer(&QPParams{ResponderResources: 2, InitiatorDepth: 1}, 16, 8)
	require.Equal(t, negotiation{resources: 1, depth: 2}, mine)
}

// The REQ offers numbers of READs and atomics. A REP can not raise these numbers.
func TestREPAboveTheOffer(t *testing.T) {
	for _, offer := range []cm.ConnParam{
		{ResponderResources: -1, InitiatorDepth: -1}, {ResponderResources: 3, InitiatorDepth: 2},
	} {
		s := newMADSim(t)
		l := s.listen(cm.TCP, 0)
		active := s.connecting(cm.TCP, l.LocalAddr(), &offer)
		passive, _ := s.request(l)
		s.accept(passive, nil)
		s.drive()
		require.Len(t, s.inFlight, 1)
		m := &s.inFlight[0].mad
		var rep wire.REP
		rep.Decode(m)
		rep.ResponderResources, rep.InitiatorDepth = 16, 16
		rep.Encode(m, m.TID())
		ev := s.want(s.client, cm.Established, active)
		require.EqualValues(t, max(0, offer.ResponderResources), ev.Param.ResponderResources)
		require.EqualValues(t, max(0, offer.InitiatorDepth), ev.Param.InitiatorDepth)
		RequireQP(t, active.QP(), WantQP{
			Served: uint8(max(0, offer.ResponderResources)), Outstanding: uint8(max(0, offer.InitiatorDepth)),
			Retry: 7, RNRRetry: 7, Peer: passive,
		})
	}
}

// A side without responder resources allows its peer neither READs nor atomics.
func TestAccessFollowsResources(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{ResponderResources: -1, InitiatorDepth: 2})
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(&cm.ConnParam{ResponderResources: 2, InitiatorDepth: -1}))
	client.Want(cm.Established, active)
	RequireQP(t, active.QP(), WantQP{Outstanding: 2, Retry: 7, RNRRetry: 7, Peer: passive})
	RequireQP(t, passive.QP(), WantQP{Served: 2, Retry: 7, RNRRetry: 7, Peer: active})
}

func TestOptionsReachQP(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.ID(cm.TCP)
	require.NoError(t, active.SetTOS(0x68))
	require.NoError(t, active.SetAckTimeout(14))
	require.NoError(t, active.SetMinRNRTimer(0))
	client.Resolve(active, l.LocalAddr())
	client.CreateQP(active)
	require.NoError(t, active.Connect(nil))
	passive, _ := server.Request(l)
	require.NoError(t, passive.SetAckTimeout(0))
	require.NoError(t, passive.SetMinRNRTimer(31))
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, active)

	attr, err := active.QP().Query()
	require.NoError(t, err)
	require.EqualValues(t, 14, attr.Timeout)
	require.EqualValues(t, 0x68, attr.AH.TrafficClass)
	require.EqualValues(t, 0, attr.MinRNRTimer, "the longest")
	require.Equal(t, verbs.GIDFromAddr(l.LocalAddr().Addr()), attr.AH.DestGID)
	theirs, err := passive.QP().Query()
	require.NoError(t, err)
	require.Zero(t, theirs.Timeout, "0 means no timeout")
	require.EqualValues(t, 31, theirs.MinRNRTimer)
	require.Equal(t, attr.SQPSN, theirs.RQPSN)
	require.Equal(t, theirs.SQPSN, attr.RQPSN)
}
