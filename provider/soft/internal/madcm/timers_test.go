//go:build linux

package madcm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

// The passive side uses the ACK timeout that the REQ proposes, unless its code is 0 (no
// timeout) or 17 (the default of Linux after version 6.1). No peer causes more than
// 4.3 s.
func TestAckTimeoutReceived(t *testing.T) {
	for told, want := range map[uint8]uint8{0: 18, 14: 14, 17: 18, 19: 19, 20: 20, 21: 20, 31: 20} {
		w := newMADSim(t)
		l := w.listen(cm.TCP, 0)
		active := w.resolved(l)
		require.NoError(t, active.SetAckTimeout(told))
		w.client.CreateQP(active)
		require.NoError(t, active.Connect(nil))
		passive, _ := w.request(l)
		w.accept(passive, nil)
		w.want(w.client, cm.Established, active)
		require.Equal(t, told, ackTimeoutOf(t, active))
		require.Equal(t, want, ackTimeoutOf(t, passive))
	}
}

func ackTimeoutOf(t *testing.T, id *cm.ID) uint8 {
	t.Helper()
	attr, err := id.QP().Query()
	require.NoError(t, err)
	return attr.Timeout
}

// The active side computes its ACK timeout from the ACK delay in the REP.
func TestAckTimeoutFollowsDelay(t *testing.T) {
	for delay, want := range map[uint8]uint8{19: 20, 20: 20, 31: 20} {
		w := newMADSim(t)
		w.copies = func(m *wire.MAD, _ netip.Addr) int {
			if m.Attribute() == wire.AttrREP {
				var r wire.REP
				r.Decode(m)
				r.TargetAckDelay = delay
				r.Encode(m, m.TID())
			}
			return 1
		}
		active, passive := w.connected()
		require.Equal(t, want, ackTimeoutOf(t, active))
		require.EqualValues(t, 18, ackTimeoutOf(t, passive))
	}
}

// A REP states an ACK delay that a busy host keeps. Linux computes its timeout from it:
// the packet lifetime is 18 in Linux 6.1, and 16 later. A peer of this package does not.
func TestAckDelayOfREP(t *testing.T) {
	w := newMADSim(t)
	stated := uint8(0)
	w.copies = func(m *wire.MAD, _ netip.Addr) int {
		if m.Attribute() == wire.AttrREP {
			var r wire.REP
			r.Decode(m)
			stated = r.TargetAckDelay
		}
		return 1
	}
	active, _ := w.connected()
	require.EqualValues(t, 18, stated)
	require.EqualValues(t, 18, ackTimeoutOf(t, active))
}

// outage is the time for which the network drops all packets in these tests.
const outage = 5 * time.Second

// A network outage, in which all packets are lost, begins when a REQ, REP or RTU is sent.
// The connection is established soon after the outage.
func TestWireCMOutage(t *testing.T) {
	for _, first := range []wire.Attribute{wire.AttrREQ, wire.AttrREP, wire.AttrRTU} {
		w := newMADSim(t)
		var start time.Time
		w.copies = func(m *wire.MAD, _ netip.Addr) int {
			if start.IsZero() && m.Attribute() == first {
				start = w.clock.Now
			}
			if !start.IsZero() && w.clock.Now.Sub(start) < outage {
				return 0
			}
			return 1
		}
		l := w.listen(cm.TCP, 0)
		active := w.connecting(cm.TCP, l.LocalAddr(), nil)
		passive, _ := w.request(l)
		w.accept(passive, nil)
		w.want(w.client, cm.Established, active)
		require.LessOrEqual(t, w.clock.Now.Sub(start), outage+requestInterval)
		w.want(w.server, cm.Established, passive)
		require.LessOrEqual(t, w.clock.Now.Sub(start), outage+maxInterval)
	}
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
		cmtest.RequireQP(t, active.QP(), cmtest.WantQP{
			Served: uint8(max(0, offer.ResponderResources)), Outstanding: uint8(max(0, offer.InitiatorDepth)),
			Retry: 7, RNRRetry: 7, Peer: passive,
		})
	}
}
