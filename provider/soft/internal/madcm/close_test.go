//go:build linux

package madcm

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

// A listener that closes refuses the requests in the inbox of its channel.
func TestWireCMListenerCloses(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		w := newMADSim(t)
		l := w.listen(ps, 8)
		var ids [2]*cm.ID
		ids[0] = w.connecting(ps, l.LocalAddr(), nil)
		fetched, _ := w.request(l)
		ids[1] = w.connecting(ps, l.LocalAddr(), nil)
		// Two jobs are queued in the inbox: one for the request of ids[1], and one for a copy of
		// the request of ids[0], which was already fetched.
		w.clock.Advance(firstInterval)
		w.client.Quiet() // The client retransmits both requests.
		for w.deliverOne() {
		}
		require.NoError(t, l.Close())
		w.drive()
		for _, id := range ids[1:] {
			w.await(w.client)
			if ps == cm.UDP {
				w.client.WantUnreachable(id, cm.SIDRReject, false, padded("", 136))
			} else {
				w.client.WantRejected(id, cm.RejectConsumer, false, padded("", 148))
			}
		}
		w.client.Quiet()

		// The fetched request can still be accepted.
		w.accept(fetched, nil)
		w.want(w.client, cm.Established, ids[0])
		require.Empty(t, w.server.mux.listeners)
	})
}

// A listener that closes refuses the requests in the receive buffer of its socket.
func TestWireCMListenerClosesUnread(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		cfg := &Config{Port: freeport.UDP(t)}
		client, server := openParty(t, cfg), openParty(t, cfg)
		l := server.Listen(ps, "127.9.3.2:0", 0)
		// One call of receive() returns fewer than 40 requests.
		var ids [40]*cm.ID
		for i := range ids {
			ids[i] = client.ConnectingFrom(ps, "127.9.3.1", l.LocalAddr())
		}
		require.NoError(t, l.Close())
		require.Empty(t, server.ports.Addrs(), "the UDP port is free")
		for range ids {
			ev := client.Next()
			require.Contains(t, ids, ev.ID)
			require.ErrorIs(t, ev.Err, cm.ErrRefused)
			if ps == cm.UDP {
				require.EqualValues(t, cm.SIDRReject, ev.Status)
			} else {
				require.EqualValues(t, cm.RejectConsumer, ev.Status)
			}
			require.NoError(t, ev.Ack())
		}
	})
}

// A request stays in listener.waiting until the channel handles it.
func TestWireCMWaitingRequests(t *testing.T) {
	w := newMADSim(t)
	l := w.listen(cm.TCP, 0)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	w.deliverOne()
	listener := w.server.mux.listeners[wire.NewServiceID(uint16(cm.TCP), l.LocalAddr().Port())][0]
	require.Len(t, listener.waiting, 1)
	w.drive()
	require.Empty(t, listener.waiting)
	passive, _ := w.request(l)
	require.NoError(t, passive.Reject(nil))
	w.await(w.client)
	w.client.WantRefusal(active, false, padded("", 148))
}

// A request that waited in the inbox while its port was closed is not answered, because the
// descriptor of the port may belong to another file by then.
func TestWireCMPortCloses(t *testing.T) {
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprintf("listener-closes=%t", closes), func(t *testing.T) {
			w := newMADSim(t)
			w.routeMTUs = map[netip.Addr]int{clientAddr: 1500} // the path MTU of a REQ is refused
			l := w.listen(cm.TCP, 0)
			id := w.connecting(cm.TCP, l.LocalAddr(), nil)
			w.deliverOne()
			listener := w.listenerOf(l)
			require.Len(t, listener.waiting, 1)
			listener.addrs.set(listener, nil) // The address leaves the host.
			require.Empty(t, w.server.mux.ports)
			sent := w.sent
			if closes {
				require.NoError(t, l.Close())
			}
			w.drive()
			require.Empty(t, listener.waiting)
			require.Equal(t, sent, w.sent)
			w.client.End(id)
		})
	}
}
