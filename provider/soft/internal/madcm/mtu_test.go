//go:build linux

package madcm

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requests starts to record the REQs that are sent. It returns a function that returns
// the recorded REQs.
func (w *madSim) requests() func() []wire.REQ {
	var seen []wire.REQ
	w.copies = func(m *wire.MAD, _ netip.Addr) int {
		if m.Attribute() == wire.AttrREQ {
			var r wire.REQ
			r.Decode(m)
			seen = append(seen, r)
		}
		return 1
	}
	return func() []wire.REQ { return seen }
}

// If the MTU of the server's interface is smaller, the client sends a second REQ with the
// path MTU that the server's REJ names.
func TestWireCMSmallerMTU(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	w.server.mux.ports[serverAddr].mtu = verbs.MTU512
	requests := w.requests()
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)

	require.Len(t, requests(), 2)
	first, second := requests()[0], requests()[1]
	require.Equal(t, verbs.MTU4096, verbs.MTU(first.MTU))
	require.Equal(t, verbs.MTU512, verbs.MTU(second.MTU))
	require.NotEqual(t, first.LocalID, second.LocalID, "the second request has an ID of its own")
	for _, id := range []*cm.ID{active, passive} {
		attr, err := id.QP().Query()
		require.NoError(t, err)
		require.Equal(t, verbs.MTU512, attr.PathMTU)
	}
	cmtest.Exchange(t, w.client.Party, active.QP(), w.server.Party, passive.QP())
	require.Len(t, w.client.mux.conns, 1)
	w.disconnected(active, passive)
	w.quiet()
}

// Each side allows only packets that fit its route to the other side.
func TestWireCMRouteMTU(t *testing.T) {
	for name, c := range map[string]struct {
		to   netip.Addr
		want []verbs.MTU // path MTUs of the REQs that the client sends, in order
	}{
		"active":  {serverAddr, []verbs.MTU{verbs.MTU1024}},
		"passive": {clientAddr, []verbs.MTU{verbs.MTU4096, verbs.MTU1024}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMADSim(t)
			w.routeMTUs = map[netip.Addr]int{c.to: 1500}
			l := w.listen(cm.TCP, 0)
			requests := w.requests()
			active := w.connecting(cm.TCP, l.LocalAddr(), nil)
			passive, _ := w.request(l)
			w.accept(passive, nil)
			w.want(w.client, cm.Established, active)
			w.want(w.server, cm.Established, passive)
			var got []verbs.MTU
			for _, r := range requests() {
				got = append(got, verbs.MTU(r.MTU))
			}
			require.Equal(t, c.want, got)
			w.disconnected(active, passive)
			w.quiet()
		})
	}
}

// A second REQ is retransmitted if it is lost.
func TestWireCMSmallerMTULost(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	w.server.mux.ports[serverAddr].mtu = verbs.MTU2048
	requests := 0
	w.copies = func(m *wire.MAD, _ netip.Addr) int {
		if m.Attribute() == wire.AttrREQ {
			if requests++; requests == 2 {
				return 0
			}
		}
		return 1
	}
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
	w.disconnected(active, passive)
	w.quiet()
}

// If a REJ of the path MTU names no valid path MTU, the client tries all smaller values.
// The client's error names the largest and the smallest value that it has tried.
func TestWireCMNoMTU(t *testing.T) {
	for _, info := range [][]byte{nil, {0}, {uint8(verbs.MTU4096)}, {0x30}, {1, 1}} {
		w := newMADSim(t)
		var mtus []verbs.MTU
		var ids []uint32
		w.copies = func(m *wire.MAD, to netip.Addr) int {
			if m.Attribute() == wire.AttrREQ && to == serverAddr {
				var r wire.REQ
				r.Decode(m)
				mtus, ids = append(mtus, verbs.MTU(r.MTU)), append(ids, r.LocalID)
				w.refuse(&r, info)
			}
			return 0
		}
		active := w.connecting(cm.TCP, netip.AddrPortFrom(serverAddr, 7), nil)
		ev := w.want(w.client, cm.Rejected, active)
		require.Equal(t, []verbs.MTU{verbs.MTU4096, verbs.MTU2048, verbs.MTU1024, verbs.MTU512, verbs.MTU256}, mtus)
		slices.Sort(ids)
		require.Len(t, slices.Compact(ids), len(mtus), "each request has an ID of its own")
		require.EqualError(t, ev.Err, "connection refused: invalid path MTU: the peer takes no path MTU from 4096 down to 256 bytes")
		require.Equal(t, verbs.StateError, active.QP().State())
		w.quiet()
	}
}

// refuse sends the client a REJ that refuses its path MTU.
func (w *madSim) refuse(r *wire.REQ, info []byte) {
	rej := wire.REJ{RemoteID: r.LocalID, Reason: uint16(cm.RejectInvalidMTU), InfoLength: uint8(len(info))}
	copy(rej.Info[:], info)
	var m wire.MAD
	rej.Encode(&m, tid(r.LocalID))
	w.inFlight = append(w.inFlight, simDatagram{m, serverAddr, clientAddr})
}
