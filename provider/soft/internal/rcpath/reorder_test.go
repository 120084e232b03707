//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sends makes SENDs that request an acknowledgement.
func (p *script) sends(seqs ...uint64) (pkts []wire.Packet) {
	for _, seq := range seqs {
		pkts = append(pkts, withAckReq(p.request(wire.SendOnly, seq, 10)))
	}
	return pkts
}

// newReceiver makes a script whose queue pair has n receive buffers.
func newReceiver(t *testing.T, n int) *script {
	p := newScript(t)
	for id := range n {
		p.e.Recv(uint64(id), 0, 10)
	}
	return p
}

// wantCounts requires the numbers of reordered packets and of NAKs for gaps.
func (p *script) wantCounts(reordered, naks int) {
	p.t.Helper()
	counts := p.e.QP.Shard.Counts
	require.EqualValues(p.t, reordered, counts.Load(counters.RcvdReordered))
	require.EqualValues(p.t, naks, counts.Load(counters.OutOfSeqRequest))
	require.Empty(p.t, p.conn.all.held.list)
}

// Packets that overtake others before the queue pair answers are executed in order, and
// cause no NAK.
func TestWireReorderedPackets(t *testing.T) {
	for _, c := range []struct {
		order     []uint64
		reordered int
	}{
		{[]uint64{1, 0}, 1},
		{[]uint64{1, 2, 0, 3}, 1},
		{[]uint64{3, 2, 1, 0}, 1},
		{[]uint64{1, 3, 0, 2}, 2},
		{[]uint64{2, 2, 1, 2, 0, 3}, 1},
	} {
		p := newReceiver(t, 4)
		p.send(p.sends(c.order...)...)
		last := uint64(min(len(c.order), 4) - 1)
		p.wantSyndrome("one acknowledgement for all packets", wire.AckNoCredits, last)
		p.wantQuiet("no NAK")
		ids := []uint64{0, 1, 2, 3}[:last+1]
		p.wantDone("in order", verbs.StatusSuccess, ids...)
		p.wantCounts(c.reordered, 0)
	}
}

// A NAK waits for one more poll of the sockets, in which the missing packet may arrive.
// The packets before the gap are acknowledged at once.
func TestWireNAKAwaitsPoll(t *testing.T) {
	p := newReceiver(t, 4)
	demux := p.conn.demux
	p.arrive(p.sends(0, 2)...)
	demux.SendDue()
	p.wantSyndrome("the packet before the gap", wire.AckNoCredits, 0)
	demux.Polls++
	require.False(t, demux.SendAll(), "the owner does not sleep")
	p.wantQuiet("packet 1 may arrive")
	p.arrive(p.sends(1)...)
	demux.Polls++
	demux.SendDue()
	p.wantSyndrome("packet 1 has arrived", wire.AckNoCredits, 2)
	p.arrive(p.sends(4)...)
	demux.Polls++
	demux.SendDue()
	p.wantQuiet("packet 3 may arrive")
	demux.Polls++
	require.True(t, demux.SendAll())
	p.wantSyndrome("packet 3 is missing", wire.NAK(wire.NAKSequence), 3)
	p.wantCounts(1, 1)
}

// The packets of a message may overtake each other too.
func TestWireReorderedMessage(t *testing.T) {
	p := newScript(t)
	p.e.Recv(1, 0, 3*scriptMTU)
	p.send(withAckReq(p.request(wire.SendLast, 2, 1)), p.request(wire.SendMiddle, 1, scriptMTU), p.request(wire.SendFirst, 0, scriptMTU))
	p.wantSyndrome("the message is complete", wire.AckNoCredits, 2)
	p.wantDone("the message is complete", verbs.StatusSuccess, 1)
	p.wantCounts(1, 0)
}

// A packet that does not arrive before the queue pair answers counts as lost. The packets
// behind it are dropped, and the peer sends them again after the NAK.
func TestWireGapRemains(t *testing.T) {
	p := newReceiver(t, 4)
	p.send(p.sends(1, 3, 0)...)
	p.wantSyndrome("packet 2 is missing", wire.NAK(wire.NAKSequence), 2)
	p.wantQuiet("the NAK acknowledges the packets before it")
	p.wantDone("the packets before the gap", verbs.StatusSuccess, 0, 1)
	p.wantCounts(1, 1)
	p.send(p.sends(3, 2)...)
	p.wantSyndrome("packet 3 was not held after the NAK", wire.AckNoCredits, 2)
	p.send(p.sends(3)...)
	p.wantSyndrome("packet 3 was sent again", wire.AckNoCredits, 3)
	p.wantDone("the packets after the gap", verbs.StatusSuccess, 2, 3)
	p.wantCounts(1, 1)
}

// A packet that arrives late may not be executable. The packets behind it are then
// dropped.
func TestWireReorderedWithoutBuffer(t *testing.T) {
	p := newScript(t)
	p.send(p.sends(1, 0)...)
	p.wantSyndrome("no receive buffer", wire.RNRNAK(p.e.QP.Attributes().MinRNRTimer), 0)
	p.wantQuiet("one NAK")
	p.wantCounts(1, 0)
}

// A shard holds a limited number of packets.
func TestWireHeldPacketsAreBounded(t *testing.T) {
	p := newScript(t)
	for seq := range uint64(2 * maxHeldPackets) {
		p.deliver(p.sends(seq + 1)...)
		p.deliver(p.sends(1<<22 + seq)...)
	}
	require.Len(t, p.conn.all.held.list, maxHeldPackets)
	p.conn.demux.SendDue()
	p.wantSyndrome("packet 0 is missing", wire.NAK(wire.NAKSequence), 0)
	p.wantCounts(0, 1)
}

// A queue pair that ends drops its packets.
func TestWireHeldPacketsOfEndedQP(t *testing.T) {
	p := newScript(t)
	p.deliver(p.sends(1)...)
	require.NoError(t, p.e.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	p.wantCounts(0, 0)
}

// Losses are frequent on a busy host, so holding packets allocates nothing after a while.
func TestHeldPacketsDoNotAllocate(t *testing.T) {
	p := newScript(t)
	h := &p.conn.all.held
	pkt := p.request(wire.SendOnly, 1, scriptMTU)
	run := func() {
		for seq := range uint64(maxHeldPackets) {
			h.hold(p.conn, seq, pkt, 0)
		}
		_, _, ok := h.take(p.conn, 5)
		require.True(t, ok)
		h.drop(p.conn)
	}
	run()
	require.Zero(t, testing.AllocsPerRun(20, run))
	require.LessOrEqual(t, len(h.free), maxHeldPackets)
}
