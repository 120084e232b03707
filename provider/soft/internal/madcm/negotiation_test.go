//go:build linux

package madcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

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
		cmtest.RequireQP(t, active.QP(), cmtest.WantQP{
			Served: uint8(max(0, offer.ResponderResources)), Outstanding: uint8(max(0, offer.InitiatorDepth)),
			Retry: 7, RNRRetry: 7, Peer: passive,
		})
	}
}
